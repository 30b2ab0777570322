"""Times of decode rounds and of prefills."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence

import msgspec

from ninfer_core.bench.driver import Driver
from ninfer_core.bench.floor import Floor
from ninfer_core.bench.records import Figure, Roof

UNCOUNTED_ROUNDS = 3
UNCOUNTED_CHUNKS = 2
"""Of a prompt: what is launched behind them has been launched before, and a long prompt is half a minute."""


def decode_figure(
    driver: Driver,
    floor: Floor,
    roof: Roof | None,
    rows: int,
    context_tokens: int,
    rounds: int,
    check: str,
    acceptance: float | None = None,
) -> Figure:
    """Median of `rounds` rounds that begin at `context_tokens`, with the tokens that they gain on average; of drafts
    `acceptance` says which share is kept. The floor is that of the model alone."""
    open_rows = driver.standing(rows, context_tokens, round_tokens(driver.columns, rounds))
    timed = driver.rounds(open_rows, rounds + UNCOUNTED_ROUNDS)
    driver.close(open_rows)
    seconds, gained = timed.seconds[UNCOUNTED_ROUNDS:], statistics.fmean(map(sum, timed.tokens[UNCOUNTED_ROUNDS:]))
    least = None if roof is None else floor.decode_bytes(rows, context_tokens) / roof.copy_bytes_per_second
    figure = _figure("decode", check, seconds, tokens=gained, rows=rows, context=context_tokens, chunk=0, least=least)
    speculation = timed.counts(UNCOUNTED_ROUNDS).total()
    return msgspec.structs.replace(
        figure, draft_tokens=driver.columns - 1, acceptance=acceptance, speculation=speculation
    )


def round_tokens(columns: int, rounds: int) -> int:
    """The most tokens that a row may gain in so many counted rounds, and one more."""
    return (rounds + UNCOUNTED_ROUNDS) * columns + 1


def prefill_figure(
    driver: Driver, floor: Floor, rate: float | None, tokens: int, chunk_tokens: int, repeats: int, check: str
) -> Figure:
    """Median of `repeats` prompts of `tokens` tokens, from the first launch to the first candidate; one more goes
    before, uncounted, or its first chunks. `rate` is that of the matrices' products, operations a second."""
    lengths = [min(tokens, UNCOUNTED_CHUNKS * chunk_tokens), *[tokens] * repeats]
    seconds = []
    for number, length in enumerate(lengths):
        row = driver.open(0, length, 1, seed=number)
        prompt = driver.prompt(number, length)
        begin = time.perf_counter()
        driver.prefill(row, prompt, chunk_tokens)
        seconds.append(time.perf_counter() - begin)
        driver.close([row])
    least = None if rate is None else floor.prefill_operations(tokens) / rate
    return _figure("prefill", check, seconds[1:], tokens=tokens, rows=1, context=0, chunk=chunk_tokens, least=least)


def _figure(
    case: str,
    check: str,
    seconds: Sequence[float],
    *,
    tokens: float,
    rows: int,
    context: int,
    chunk: int,
    least: float | None,
) -> Figure:
    return Figure(
        case=case,
        check=check,
        seconds=statistics.median(seconds),
        slow_seconds=sorted(seconds)[math.ceil(0.9 * (len(seconds) - 1))],
        samples=len(seconds),
        tokens=tokens,
        rows=rows,
        context_tokens=context,
        chunk_tokens=chunk,
        floor_seconds=least,
    )
