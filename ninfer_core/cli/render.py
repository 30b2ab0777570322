"""`ninfer render`: the exact prompt of one request, without a device and without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from ninfer_core.api.errors import RequestTooLarge
from ninfer_core.api.frontend import Frontend, PreparedPrompt, ThinkingDefaults
from ninfer_core.api.request import GenerationRequest
from ninfer_core.artifact import open_artifact
from ninfer_core.cli.options import ServeCommand, some_serve_options
from ninfer_core.cli.table import table
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.selection import claim_family
from ninfer_core.plugins.registry import PluginRegistry
from ninfer_core.serving.preparation import prepare_prompt


@click.command(cls=ServeCommand)
@click.argument(
    "request_file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    metavar="REQUEST.json",
)
@some_serve_options("artifact", "family", "no_thinking", "preserve_thinking", "max_request_mib")
@click.option(
    "--protocol",
    "protocol_name",
    metavar="NAME",
    default="openai-chat",
    show_default=True,
    help="Protocol plugin whose request body the file holds.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object, with the token ids.")
def render(request_file: Path, options: ServeOptions, protocol_name: str, as_json: bool) -> None:
    """Show the exact prompt that a request makes.

    REQUEST.json is a request body as a client sends it; - reads stdin. ARTIFACT is a .ninfer file, a Hugging Face
    directory or dummy:NAME; without it, the embedded tiny model. The prompt goes to stdout byte for byte; the token
    count, the resolved options and the frontiers go to stderr.
    """
    registry = PluginRegistry.discover()
    protocol = registry.load(registry.select("protocol", protocol_name))
    frontend = _frontend(options, registry)
    defaults = ThinkingDefaults(enable_thinking=not options.no_thinking, preserve_thinking=options.preserve_thinking)
    request: GenerationRequest = protocol.hook.ninfer_protocol_lower(
        body=_body(request_file, options.max_request_mib * 2**20)
    )
    prompt = prepare_prompt(frontend, request, defaults)
    if as_json:
        _write(msgspec.json.format(msgspec.json.encode(prompt_document(frontend, prompt)), indent=2) + b"\n")
    else:
        _write(prompt.text.encode())
        click.echo(("" if prompt.text.endswith("\n") else "\n") + prompt_report(frontend, prompt), err=True)


def _frontend(options: ServeOptions, registry: PluginRegistry) -> Frontend:
    named = None if options.family is None else registry.select("family", options.family)
    header = open_artifact(options.artifact, registry).header
    frontend: Frontend = claim_family(named, registry, header).hook.ninfer_family_frontend(header=header)
    return frontend


def _body(path: Path, limit_bytes: int) -> bytes:
    """Raises RequestTooLarge, as the server would."""
    try:
        with click.open_file(str(path), "rb") as file:
            body: bytes = file.read(limit_bytes + 1)
    except OSError as problem:
        raise click.BadParameter(f"{path}: {problem.strerror}", param_hint="REQUEST.json") from None
    if len(body) > limit_bytes:
        raise RequestTooLarge(limit_bytes=limit_bytes)
    return body


def _write(data: bytes) -> None:
    # As bytes: click.echo would take escape sequences out of a text where stdout is no terminal.
    click.echo(data, nl=False)


def prompt_document(frontend: Frontend, prompt: PreparedPrompt) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "text": prompt.text,
        "prompt_tokens": len(prompt.token_ids),
        "initial_channel": prompt.initial_channel,
        "renderer": frontend.capabilities.renderer,
        "options": prompt.resolved,
        "frontiers": prompt.frontiers,
        "token_ids": prompt.token_ids,
    }


def prompt_report(frontend: Frontend, prompt: PreparedPrompt) -> str:
    """What a person wants to know beside the text; options that the template does not have are left out."""
    options = msgspec.to_builtins(prompt.resolved)
    facts = [
        ("prompt", f"{len(prompt.token_ids):,} tokens, {len(prompt.text):,} characters"),
        ("renderer", _renderer(frontend)),
        ("answer begins in", prompt.initial_channel),
        *((name, str(value).lower()) for name, value in options.items() if value is not None),
    ]
    rows = [
        (frontier.kind, *(_index(place) for place in (frontier.message, frontier.part)), f"{frontier.tokens:,}")
        for frontier in prompt.frontiers
    ]
    sections = [table(None, facts)]
    if rows:
        sections.append(table(("FRONTIER", "MESSAGE", "PART", "TOKENS"), rows))
    return "\n\n".join(sections)


def _renderer(frontend: Frontend) -> str:
    capabilities = frontend.capabilities
    return (
        f"{capabilities.renderer}: {capabilities.renderer_reason}"
        if capabilities.renderer_reason
        else capabilities.renderer
    )


def _index(place: int | None) -> str:
    return "" if place is None else str(place)
