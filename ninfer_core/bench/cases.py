"""Which figures a run has, and what each is checked by."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ninfer_core.api.errors import StartFailed
from ninfer_core.api.plan import Capacities
from ninfer_core.bench.driver import CONTEXT_PROMPT_TOKENS, Driver, fits
from ninfer_core.bench.floor import Floor
from ninfer_core.bench.measure import decode_figure, prefill_figure, round_tokens
from ninfer_core.bench.probes import Probe
from ninfer_core.bench.records import EngineCases, Figure, Roof
from ninfer_core.bench.subject import Subject

PROBE_ROUNDS = 8
LONG_PROBE_ROWS = 2
LONGEST_PROBED_PROMPT = 2048
"""Or one chunk, if that is more. Of a longer prompt the reference, which is slow, runs the last tokens, over random
keys and values before them."""
LONGEST_REPEATED_PROMPT = 16384
"""Longer ones take seconds, of which what varies is a small part: they are run once."""


def check_room(capacities: Capacities, cases: EngineCases) -> None:
    """Raises StartFailed where cases were asked for, and no mixes beside them, and the plan has room for none."""
    if cases.mixes:
        return
    rows, most = min(cases.batches), capacities.prefill_chunk
    rounds = round_tokens(1 + capacities.draft_tokens, cases.rounds)
    contexts = {context: context + max(rounds, PROBE_ROUNDS + 1) for context in cases.context_tokens}
    prompts = {tokens: tokens + PROBE_ROUNDS + 1 for tokens in cases.prompt_tokens}
    chunked = any(min(chunk, tokens) <= most for chunk in cases.chunk_tokens for tokens in prompts)
    if any(fits(capacities, rows, needed) for needed in contexts.values()):
        return
    if chunked and any(fits(capacities, 1, needed) for needed in prompts.values()):
        return
    wants = []
    if contexts:
        context, needed = min(contexts.items())
        wants.append(f"{cases.rounds} rounds of {rows} rows over {context} tokens take {needed} tokens a row")
    if prompts:
        tokens, needed = min(prompts.items())
        wants.append(f"a prompt of {tokens} tokens takes {needed}")
        if not chunked:
            chunks = [min(chunk, tokens) for chunk in cases.chunk_tokens for tokens in prompts]
            wants.append(f"the smallest chunk is {min(chunks)} tokens" if chunks else "there are no chunks for it")
    if wants:
        raise StartFailed(
            f"the plan has room for nothing that is to be measured: {', '.join(wants)}, and it has "
            f"{capacities.max_context} for one row, {capacities.kv_pages * capacities.page_tokens} for all, "
            f"{capacities.max_concurrency} rows and chunks of {most}; give more --max-context, --kv-capacity, "
            "--max-concurrency or --prefill-chunk, or measure less with --contexts, --batches, --prompts or --chunks"
        )


@dataclass(slots=True)
class Measured:
    figures: list[Figure] = field(default_factory=list)
    probes: list[Probe] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def matmul_rate(roof: Roof | None, weights: str) -> float | None:
    """Operations a second of the products that a prefill of such weights consists of."""
    if roof is None:
        return None
    return roof.fp8_matmul_flops if weights == "fp8" and roof.fp8_matmul_flops else roof.matmul_flops


def measure_cases(
    subject: Subject,
    driver: Driver,
    cases: EngineCases,
    floor: Floor,
    roof: Roof | None,
    weights: str,
    say: Callable[[Figure], None],
) -> Measured:
    """All figures that the plan has room for, and the probes that check them."""
    measured = Measured()

    def add(figure: Figure, probe: Probe) -> None:
        measured.figures.append(figure)
        say(figure)
        if probe not in measured.probes:
            measured.probes.append(probe)

    for context, probe in _context_probes(driver, cases, measured.remarks):
        for rows in cases.batches:
            if not driver.fits(rows, context + round_tokens(driver.columns, cases.rounds)):
                measured.remarks.append(f"no room for {rows} rows of {context} tokens")
                continue
            for acceptance in cases.acceptances or (None,):
                with subject.accepting(acceptance):
                    add(decode_figure(driver, floor, roof, rows, context, cases.rounds, probe.name, acceptance), probe)
    rate, most = matmul_rate(roof, weights), subject.plan.capacities.prefill_chunk
    for tokens in cases.prompt_tokens:
        if not driver.fits(1, tokens + PROBE_ROUNDS + 1):
            measured.remarks.append(f"no room for a prompt of {tokens} tokens")
            continue
        for chunk in sorted({min(chunk, tokens) for chunk in cases.chunk_tokens}):
            if chunk > most:
                measured.remarks.append(f"no room for a prompt of {tokens} tokens in chunks of {chunk}")
                continue
            probe = _prompt_probe(tokens, chunk)
            repeats = cases.prefills if tokens <= LONGEST_REPEATED_PROMPT else 1
            add(prefill_figure(driver, floor, rate, tokens, chunk, repeats, probe.name), probe)
    return measured


def _context_probes(driver: Driver, cases: EngineCases, remarks: list[str]) -> Iterator[tuple[int, Probe]]:
    """The contexts that fit, with the probe of each: all rows of a short one, some of a long one, since the reference
    has to hold what it reads."""
    for context in cases.context_tokens:
        prompt = min(CONTEXT_PROMPT_TOKENS, context)
        most = max(cases.batches) if context == prompt else min(LONG_PROBE_ROWS, max(cases.batches))
        probe = Probe(f"context {context}", context - prompt, prompt, prompt, most, PROBE_ROUNDS)
        while probe.rows > 1 and not driver.fits(probe.rows, probe.tokens + 1):
            probe = Probe(probe.name, context - prompt, prompt, prompt, probe.rows - 1, PROBE_ROUNDS)
        if driver.fits(1, probe.tokens + 1):
            yield context, probe
        else:
            remarks.append(f"no room for a context of {context} tokens")


def _prompt_probe(tokens: int, chunk: int) -> Probe:
    prompt = min(tokens, max(chunk, LONGEST_PROBED_PROMPT))
    return Probe(f"prompt {tokens} in chunks of {chunk}", tokens - prompt, prompt, chunk, 1, PROBE_ROUNDS)
