"""`ninfer parse`: what becomes of model text, by the engine's own session and the family's own parser."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import click
import msgspec

from ninfer_core.api.errors import PluginUnknown
from ninfer_core.api.frontend import ChannelText, OutputFormat, OutputParser, ParsedToolCall
from ninfer_core.api.request import Channel, ToolDefinition
from ninfer_core.artifact import open_artifact
from ninfer_core.cli.input_file import LARGEST_INPUT_BYTES
from ninfer_core.cli.tools_file import read_tools
from ninfer_core.engine.session import Ending, OutputSession
from ninfer_core.plan.selection import claim_family
from ninfer_core.plugins.loading import LoadedPlugin
from ninfer_core.plugins.offer import standing
from ninfer_core.plugins.registry import PluginRegistry


class ParsedText(msgspec.Struct, frozen=True, kw_only=True):
    """The command's output. `content` and `reasoning` are empty, not null, where there is no text."""

    reasoning: str
    content: str
    tool_calls: tuple[dict[str, Any], ...]
    finish_reason: Literal["stop", "length", "tool_calls"]
    fallback_reason: str


def _offsets(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, ...]:
    try:
        offsets = tuple(int(word) for word in value.split(",")) if value else ()
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a list of numbers such as 3,10,11") from None
    if any(offset < 0 for offset in offsets):
        raise click.BadParameter("an offset is 0 or more")
    return offsets


def _not_empty(context: click.Context, parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    if not all(value):
        raise click.BadParameter("an empty text would match everywhere")
    return value


@click.command()
@click.argument("artifact", required=False)
@click.option(
    "--tools",
    "tools_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="TOOLS.json",
    help="Tools that may be called: an array, or an object with 'tools' and maybe 'tool_choice'. [default: none]",
)
@click.option(
    "--channel",
    type=click.Choice(["reasoning", "content"]),
    default="content",
    show_default=True,
    help="Where the text begins: reasoning when the prompt left a thinking block open.",
)
@click.option("--stop", multiple=True, callback=_not_empty, metavar="S", help="A stop string; may be repeated.")
@click.option("--tolerant", is_flag=True, help="Read as under --tolerant-tool-calls.")
@click.option("--cut", callback=_offsets, metavar="N,N,...", help="Byte offsets at which the text comes in pieces.")
@click.option("--cut-every", type=click.IntRange(min=1), metavar="N", help="Cut after every N bytes too.")
@click.option(
    "--finish",
    type=click.Choice(["stop", "length"]),
    default="stop",
    show_default=True,
    help="How the model ended: by itself, or at a limit.",
)
@click.option("--family", metavar="NAME", help="Model family. [default: ARTIFACT's, or the only one installed]")
def parse(
    artifact: str | None,
    tools_file: Path | None,
    channel: Channel,
    stop: tuple[str, ...],
    tolerant: bool,
    cut: tuple[int, ...],
    cut_every: int | None,
    finish: Literal["stop", "length"],
    family: str | None,
) -> None:
    """Show as JSON how the model text on stdin is read.

    The text goes the way of generated tokens, a piece a token: decoding, end of thinking, stop strings, tool calls.
    The result does not depend on the cuts. ARTIFACT only serves to find the model family.
    """
    tools = () if tools_file is None else read_tools(tools_file)
    data = sys.stdin.buffer.read(LARGEST_INPUT_BYTES + 1)
    if len(data) > LARGEST_INPUT_BYTES:
        raise click.ClickException(f"the text is over {LARGEST_INPUT_BYTES} bytes; give less")
    every = tuple(range(cut_every, len(data), cut_every)) if cut_every else ()
    parsed = parse_text(
        _output_format(artifact, family),
        _pieces(data, cut + every),
        tools=tools,
        channel=channel,
        stop=stop,
        tolerant=tolerant,
        finish=finish,
    )
    click.echo(msgspec.json.format(msgspec.json.encode(parsed), indent=2))


def parse_text(
    output_format: OutputFormat,
    pieces: tuple[bytes, ...],
    *,
    tools: tuple[ToolDefinition, ...] = (),
    channel: Channel = "content",
    stop: tuple[str, ...] = (),
    tolerant: bool = False,
    finish: Literal["stop", "length"] = "stop",
) -> ParsedText:
    """Read an answer whose tokens stand for `pieces`, at least one."""
    end_token = len(pieces)
    session = OutputSession(
        output_format.decoder((*pieces, b"").__getitem__, channel),
        stop_token_ids=frozenset((end_token,)),
        stop=stop,
        stop_channels=("reasoning", "content"),
        limit=len(pieces) + (finish == "stop"),
        limit_ending=Ending("output_limit"),
    )
    parser = output_format.parser(tools, tolerant=tolerant)
    given: list[ChannelText | ParsedToolCall] = []
    ending: Ending | None = None
    for token_id in range(end_token + 1):
        step = session.push([token_id])
        for delta in step.deltas:
            given += parser.push(ChannelText(delta.channel, delta.text))
        ending = step.ending
        if ending is not None:
            break
    assert ending is not None, "the last token ends every answer"
    given += parser.finish()
    return _result(given, ending, parser)


def _result(given: list[ChannelText | ParsedToolCall], ending: Ending, parser: OutputParser) -> ParsedText:
    calls = tuple(each for each in given if isinstance(each, ParsedToolCall))
    texts = [each for each in given if isinstance(each, ChannelText)]
    finish: Literal["stop", "length", "tool_calls"] = "tool_calls" if calls else "stop"
    return ParsedText(
        reasoning="".join(text for channel, text in texts if channel == "reasoning"),
        content="".join(text for channel, text in texts if channel == "content"),
        tool_calls=tuple({"name": call.name, "arguments": call.arguments} for call in calls),
        # A limit goes before calls (contract IMPL-5).
        finish_reason="length" if ending.reason == "output_limit" else finish,
        fallback_reason=parser.report.fallback_reason,
    )


def _pieces(data: bytes, offsets: tuple[int, ...]) -> tuple[bytes, ...]:
    """`data` cut at the offsets that lie inside it, in any order."""
    bounds = sorted({0, len(data), *(offset for offset in offsets if offset < len(data))})
    return tuple(data[start:end] for start, end in pairwise(bounds)) or (b"",)


def _output_format(artifact: str | None, family: str | None) -> OutputFormat:
    output_format: OutputFormat = _family(artifact, family).hook.ninfer_family_output_format()
    return output_format


def _family(artifact: str | None, family: str | None) -> LoadedPlugin:
    registry = PluginRegistry.discover()
    named = None if family is None else registry.select("family", family)
    if artifact is not None:
        return claim_family(named, registry, open_artifact(artifact, registry).header)
    if named is None:
        usable = [offer for offer in registry.offers("family") if standing(offer, None).state == "ready"]
        if len(usable) != 1:
            listed = ", ".join(offer.reference for offer in usable) or "none"
            raise PluginUnknown(f"which model family's text is it? Choose with --family NAME; usable: {listed}")
        named = usable[0]
    return registry.load(named)
