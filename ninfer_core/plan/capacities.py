"""From options to bounds: context, KV pages, rows; and what to say when they do not fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import msgspec

from ninfer_core.api.errors import PlanRejected, Problem
from ninfer_core.api.geometry import Geometry
from ninfer_core.api.plan import Capacities
from ninfer_core.plan.memory import PAGE_TOKENS, pages_for
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.sizing import AUTO_HEADROOM_BYTES, Sizing, largest_that, ledger_text
from ninfer_core.plan.units import format_bytes

DEFAULT_MAX_CONTEXT = 8192
"""Tokens, where the model has positions for them (contract OPT-5)."""
CHUNK_STEP = 128


def wanted_capacities(options: ServeOptions, geometry: Geometry, draft_tokens: int = 0) -> Capacities:
    """What the options ask for. With `--kv-capacity auto` the pages are the least that can work. `draft_tokens` of a
    round are settled before.

    Raises PlanRejected with every option that the model or another option rules out.
    """
    max_context = options.max_context
    if max_context is None:
        max_context = min(DEFAULT_MAX_CONTEXT, geometry.max_positions)
    problems = [*_context_problems(options, geometry), *_kv_problems(options, max_context)]
    if problems:
        raise PlanRejected(problems)
    rows = options.max_concurrency
    pages = max(pages_for(max_context), rows)
    if isinstance(options.kv_capacity, int):
        pages = pages_for(options.kv_capacity)
    return Capacities(
        max_context=max_context,
        page_tokens=PAGE_TOKENS,
        kv_pages=pages,
        state_slots=rows,
        max_concurrency=rows,
        max_pending_requests=options.max_pending_requests,
        pending_timeout_ms=options.pending_timeout_ms,
        prefill_chunk=min(options.prefill_chunk, max_context),
        draft_tokens=draft_tokens,
        default_max_tokens=options.default_max_tokens,
    )


def _unnamed() -> Sequence[str]:
    return ("smaller weights",)


def fitted_capacities(
    options: ServeOptions,
    sizing: Sizing,
    wanted: Capacities,
    smaller_forms: Callable[[], Sequence[str]] = _unnamed,
) -> Capacities:
    """`wanted` with the KV pages settled. Raises PlanRejected when the device cannot hold it; `smaller_forms` says
    what would have the same model and cache in fewer bytes."""
    automatic = options.kv_capacity == "auto"
    keep_free = AUTO_HEADROOM_BYTES if automatic else 0
    if sizing.bytes(wanted) + keep_free > sizing.device.memory_bytes:
        fitting = _what_fits(options, sizing, wanted, keep_free)
        remedy = f"any of these fits: {', '.join(fitting)}" if fitting else ""
        remedy = remedy or _what_is_left(sizing, wanted, keep_free, smaller_forms())
        message = _memory_message(sizing, wanted, keep_free)
        raise PlanRejected([Problem(code="memory_exceeded", message=message, remedy=remedy)])
    return sizing.with_auto_pages(wanted) if automatic else wanted


def _context_problems(options: ServeOptions, geometry: Geometry) -> list[Problem]:
    if options.max_context is None or options.max_context <= geometry.max_positions:
        return []
    return [
        Problem(
            code="context_too_large",
            message=f"{options.origin('max_context')} is {options.max_context} tokens, and the model has "
            f"{geometry.max_positions} positions",
            remedy=f"--max-context {geometry.max_positions} is the most",
        )
    ]


def _kv_problems(options: ServeOptions, max_context: int) -> list[Problem]:
    capacity, rows = options.kv_capacity, options.max_concurrency
    if not isinstance(capacity, int):
        return []
    origin, pages, most = options.origin("kv_capacity"), pages_for(capacity), rows * pages_for(max_context)
    if capacity < max_context:
        code = "kv_capacity_too_small"
        message = f"{origin} is {capacity} tokens, less than the {max_context} of one full context"
        remedy = f"--kv-capacity {max_context} or more, --max-context {capacity}, or --kv-capacity auto"
    elif pages < rows:
        code = "kv_capacity_too_small"
        message = f"{origin} is {pages} pages of {PAGE_TOKENS} tokens, and {rows} concurrent requests need one each"
        remedy = f"--kv-capacity {rows * PAGE_TOKENS} or more"
    elif pages > most:
        code = "kv_capacity_too_large"
        message = f"{origin} is {pages} pages, and {rows} contexts of {max_context} tokens fill {most}"
        remedy = f"--kv-capacity {most * PAGE_TOKENS} or less, or a larger --max-context or --max-concurrency"
    else:
        return []
    return [Problem(code=code, message=message, remedy=remedy)]


def _memory_message(sizing: Sizing, wanted: Capacities, keep_free: int) -> str:
    lines = sizing.lines(wanted)
    needed = sum(line.bytes for line in lines) + keep_free
    device = sizing.device
    headroom = f", headroom {format_bytes(keep_free)}" if keep_free else ""
    return (
        f"the plan needs {format_bytes(needed)} and the device ({device.name}) has "
        f"{format_bytes(device.memory_bytes)}, {format_bytes(needed - device.memory_bytes)} too little: "
        f"{ledger_text(lines)}{headroom}"
    )


def _what_fits(options: ServeOptions, sizing: Sizing, wanted: Capacities, keep_free: int) -> list[str]:
    """The largest value of each option that would make the plan fit by itself, and what it frees."""
    explicit = isinstance(options.kv_capacity, int)
    now = sizing.bytes(wanted)

    def fits(capacities: Capacities) -> bool:
        return sizing.bytes(capacities) + keep_free <= sizing.device.memory_bytes

    def phrase(flags: str, capacities: Capacities) -> str:
        return f"{flags} (frees {format_bytes(now - sizing.bytes(capacities))})"

    advice = []
    if explicit:
        least = max(pages_for(wanted.max_context), wanted.max_concurrency)
        pages = largest_that(lambda pages: fits(_with_pages(wanted, pages)), least, wanted.kv_pages - 1)
        if pages is not None:
            advice.append(phrase(f"--kv-capacity {pages * PAGE_TOKENS}", _with_pages(wanted, pages)))
    tokens = largest_that(lambda tokens: fits(_with_context(wanted, tokens)), 1, wanted.max_context - 1)
    if tokens is not None:
        kv = f" --kv-capacity {max(tokens, wanted.max_concurrency * PAGE_TOKENS)}" if explicit else ""
        advice.append(phrase(f"--max-context {tokens}{kv}", _with_context(wanted, tokens)))
    rows = largest_that(lambda rows: fits(_with_rows(wanted, rows, explicit)), 1, wanted.max_concurrency - 1)
    if rows is not None:
        fewer = _with_rows(wanted, rows, explicit)
        kv = f" --kv-capacity {fewer.kv_pages * PAGE_TOKENS}" if explicit and fewer.kv_pages < wanted.kv_pages else ""
        advice.append(phrase(f"--max-concurrency {rows}{kv}", fewer))
    chunk = largest_that(
        lambda chunk: fits(_with_chunk(wanted, chunk)), CHUNK_STEP, wanted.prefill_chunk - 1, CHUNK_STEP
    )
    if chunk is not None:
        advice.append(phrase(f"--prefill-chunk {chunk}", _with_chunk(wanted, chunk)))
    drafts = largest_that(lambda drafts: fits(_with_drafts(wanted, drafts)), 1, wanted.draft_tokens - 1)
    if drafts is not None:
        advice.append(phrase(f"--draft-tokens {drafts}", _with_drafts(wanted, drafts)))
    if sizing.drafter is not None:
        plain = _without_drafter(sizing, wanted)
        if plain + keep_free <= sizing.device.memory_bytes:
            advice.append(f"no --spec (frees {format_bytes(now - plain)})")
    return advice


def _what_is_left(sizing: Sizing, wanted: Capacities, keep_free: int, smaller_forms: Sequence[str]) -> str:
    """Where no option by itself makes the plan fit."""
    least = _smallest(wanted)
    needed = sizing.bytes(least)
    less = [*smaller_forms]
    if sizing.drafter is not None:
        less.append(f"no --spec (frees {format_bytes(needed - _without_drafter(sizing, least))})")
    assumed = "; --assume-device-memory SIZE plans for another device" if sizing.device.kind == "cpu" else ""
    took = f"the smallest capacities take {format_bytes(needed + keep_free)}"
    return f"{took}: a larger device, or what takes less: {', '.join(less)}{assumed}"


def _without_drafter(sizing: Sizing, capacities: Capacities) -> int:
    """Bytes of the same capacities where nothing speculates."""
    return dataclasses.replace(sizing, drafter=None).bytes(_with_drafts(capacities, 0))


def _with_pages(wanted: Capacities, pages: int) -> Capacities:
    return msgspec.structs.replace(wanted, kv_pages=pages)


def _with_context(wanted: Capacities, tokens: int) -> Capacities:
    return msgspec.structs.replace(
        wanted,
        max_context=tokens,
        kv_pages=max(pages_for(tokens), wanted.max_concurrency),
        prefill_chunk=min(wanted.prefill_chunk, tokens),
    )


def _with_rows(wanted: Capacities, rows: int, explicit_kv: bool) -> Capacities:
    table_pages = pages_for(wanted.max_context)
    pages = min(wanted.kv_pages, rows * table_pages) if explicit_kv else max(table_pages, rows)
    return msgspec.structs.replace(wanted, max_concurrency=rows, state_slots=rows, kv_pages=pages)


def _with_chunk(wanted: Capacities, chunk: int) -> Capacities:
    return msgspec.structs.replace(wanted, prefill_chunk=chunk)


def _with_drafts(wanted: Capacities, drafts: int) -> Capacities:
    return msgspec.structs.replace(wanted, draft_tokens=drafts)


def _smallest(wanted: Capacities) -> Capacities:
    fewest = _with_chunk(_with_context(_with_rows(wanted, 1, explicit_kv=False), 1), 1)
    return _with_drafts(fewest, min(1, wanted.draft_tokens))
