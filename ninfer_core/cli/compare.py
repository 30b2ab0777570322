"""`ninfer compare`: how far two artifacts, or two forms of one, are apart on a text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from ninfer_core.api.errors import PlanRejected, Problem
from ninfer_core.api.request import GenerationRequest, Message, TextPart
from ninfer_core.cli.input_file import read_input
from ninfer_core.cli.table import table
from ninfer_core.plan.option_sources import load_options
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.prepare import Prepared, prepare
from ninfer_core.plugins.registry import PluginRegistry
from ninfer_core.program.start import settle_environment

if TYPE_CHECKING:
    from ninfer_core.program.comparison import Comparison

TEXT = """The river had been rising since Tuesday, and by the time the council met it was already over the lower road.
"How long do we have?" asked Marta. Nobody answered at once. The engineer unrolled a drawing: 3 gates, 2 of them from
1931, the third one rebuilt in 2004 with a motor that needs 400 volts. If the first fails, he said, the water takes
about 95 minutes to reach the school; if two fail, 40.

    def minutes_left(gates_open, level_metres):
        rate = 0.012 * (3 - gates_open)
        return (4.2 - level_metres) / rate if rate > 0 else float("inf")

Les pompiers sont arrivés vers minuit. 第二天早上，水位开始下降。 At six, the first bus went out over the bridge again.
"""
"""What is run where no text is given: prose, numbers, code and three languages."""

CHUNK_TOKENS = 512
MOST_TOKENS = 65_536


@click.command()
@click.argument("a", metavar="A")
@click.argument("b", metavar="[B]", required=False)
@click.option("--text", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="UTF-8 text to run.")
@click.option(
    "--tokens", type=click.IntRange(2, MOST_TOKENS), default=512, show_default=True, help="Most of its tokens."
)
@click.option("--weights", metavar="FORM", help="Numeric form of B's matrices, as for serve.")
@click.option("--kernels", metavar="WORD", help="What computes B, as for serve.")
@click.option("--kv-dtype", metavar="NAME", help="KV format of B, as for serve.")
@click.option("--device", metavar="N|cpu", help="CUDA device index, or cpu.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def compare(
    a: str,
    b: str | None,
    text: Path | None,
    tokens: int,
    weights: str | None,
    kernels: str | None,
    kv_dtype: str | None,
    device: str | None,
    as_json: bool,
) -> None:
    """Run a text through the artifacts A and B, and show layer by layer how far they are apart, and what that does to
    the next token.

    Without B, A is compared with itself: then one of --weights, --kernels and --kv-dtype says what is different. The
    text is the message of a user; without --text it is a short one of ours. One model at a time is in memory.
    """
    registry = PluginRegistry.discover()
    changes = {"weights": weights, "kernels": kernels, "kv_dtype": kv_dtype}
    given = {name: value for name, value in changes.items() if value is not None}
    if b is None and not given:
        raise click.UsageError("without B, give --weights, --kernels or --kv-dtype: what is different")
    common = {} if device is None else {"device": device}
    options = [
        load_options({**common, "artifact": a}, {}, None),
        load_options({**common, **given, "artifact": a if b is None else b}, {}, None),
    ]
    message = TEXT if text is None else _read(text)
    token_ids = _token_ids(options, registry, message)[:tokens]
    first, second = [prepare(_roomy(each, len(token_ids)), registry) for each in options]
    _check_comparable(first, second)
    compared = _compared(first, second, registry, token_ids)
    described = {"a": _facts(first), "b": _facts(second)}
    if as_json:
        document = {**described, **msgspec.to_builtins(compared)}
        click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2))
    else:
        click.echo("\n\n".join(_sections(described, compared)))


def _compared(first: Prepared, second: Prepared, registry: PluginRegistry, token_ids: Sequence[int]) -> Comparison:
    settle_environment(first.plan.device.kind)
    # Here, so that `--help` does not pay for torch.
    from ninfer_core.program.comparison import Subject
    from ninfer_core.program.comparison import compare as compare_programs

    a, b = (Subject(each.plan, each.artifact.header, each.artifact.open_weights) for each in (first, second))
    return compare_programs(a, b, registry, token_ids, _say_phase)


def _sections(described: Mapping[str, Mapping[str, str]], compared: Comparison) -> Iterator[str]:
    rows = [(name, *facts.values()) for name, facts in described.items()]
    yield table(("", "ARTIFACT", "WEIGHTS", "KERNELS", "KV", "PLAN"), rows)
    layers = [(str(each.layer), f"{each.relative_error:.3e}", f"{each.worst_token:.3e}") for each in compared.layers]
    yield table(("LAYER", "RELATIVE ERROR", "WORST TOKEN"), layers)
    found = compared.next_token
    divergence = (
        f"mean {found.mean_divergence:.3e}, 99 % below {found.percentile_99_divergence:.3e}, "
        f"largest {found.largest_divergence:.3e} nats"
    )
    facts = [
        ("tokens", f"{compared.tokens:,}"),
        ("KL(A || B)", divergence),
        ("same best token", f"{100 * found.top_1_agreement:.2f} %"),
        ("loss of the text", f"{found.loss_a:.4f} with A, {found.loss_b:.4f} with B, nats a token"),
    ]
    yield table(None, facts)


def _read(path: Path) -> str:
    try:
        return read_input(path, "--text").decode()
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"{path} is no UTF-8 at byte {error.start}", param_hint="--text") from None


def _token_ids(options: list[ServeOptions], registry: PluginRegistry, text: str) -> tuple[int, ...]:
    """The text's tokens as a prompt of the first artifact, which must be those of the second as well."""
    request = GenerationRequest(messages=(Message(role="user", content=(TextPart(text),)),))
    prompts = []
    for each in options:
        prepared = prepare(each, registry)
        prompt = prepared.resolution.frontend.prepare(request, prepared.plan.thinking)
        prompts.append(prompt.token_ids)
    first, second = prompts
    if first != second:
        raise _not_comparable(f"the text has {len(first)} tokens with A and {len(second)}, or others, with B")
    return tuple(first)


def _roomy(options: ServeOptions, tokens: int) -> ServeOptions:
    """Room for one prompt of so many tokens and nothing else."""
    return msgspec.structs.replace(
        options, max_context=tokens + 1, max_concurrency=1, prefill_chunk=CHUNK_TOKENS, no_cuda_graph=True
    )


def _check_comparable(first: Prepared, second: Prepared) -> None:
    a, b = first.plan.geometry, second.plan.geometry
    facts = {
        "layers": (a.layers, b.layers),
        "hidden size": (a.hidden_size, b.hidden_size),
        "vocabulary rows": (a.vocabulary_rows, b.vocabulary_rows),
    }
    different = [f"{name} {pair[0]} and {pair[1]}" for name, pair in facts.items() if pair[0] != pair[1]]
    if different:
        raise _not_comparable(f"the models are of different shapes: {', '.join(different)}")


def _not_comparable(message: str) -> PlanRejected:
    remedy = "compare two forms of one model"
    return PlanRejected([Problem(code="not_comparable", message=message, remedy=remedy)])


def _facts(prepared: Prepared) -> dict[str, str]:
    plan = prepared.plan
    return {
        "artifact": plan.source,
        "weights": plan.identity.weights_id,
        "kernels": plan.kernels,
        "kv_dtype": plan.pin("kv").name,
        "digest": plan.digest,
    }


def _say_phase(name: str, seconds: float) -> None:
    click.echo(f"{name}: {seconds:.1f} s", err=True)
