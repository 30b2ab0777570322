"""Sampling in two launches.

A logit and its token become one integer in the order of the contract, so no two are equal. The vocabulary is cut into
groups of consecutive tokens; the k best tokens lie in the k groups with the best maxima, because a token of any other
group has k better ones above it. The first launch writes the maximum of every group, reading the logits once. The
second, one program for a row, picks the best groups, reads those again, picks the best tokens and draws.

What a row costs depends on its own settings alone: a greedy row looks for one group and one token.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from ninfer_core.ops.sample.random import Purpose
from ninfer_core.ops.sample.reference import CANDIDATES
from ninfer_core.ops.sample.table import SamplerTable

NOTHING: tl.constexpr = tl.constexpr(-(1 << 63))
"""Below every key: where there is no token."""
LAST_ID: tl.constexpr = tl.constexpr(0x7FFFFFFF)
"""All bits that an id can have: id ^ LAST_ID falls as the id rises."""
UNIT: tl.constexpr = tl.constexpr(2.0**-53)
WEYL: tl.constexpr = tl.constexpr(0x9E3779B97F4A7C15)
FIRST_FACTOR: tl.constexpr = tl.constexpr(0xBF58476D1CE4E5B9)
SECOND_FACTOR: tl.constexpr = tl.constexpr(0x94D049BB133111EB)


@triton.jit
def _keys(logits, counts, ids, wanted, presence, frequency, counted):
    """Keys of the tokens `ids` of one row, NOTHING where not `wanted`. Greater is better, the lower id of equals.
    Counters are read for ids below `counted`."""
    value = tl.load(logits + ids, mask=wanted, other=0.0).to(tl.float32)
    count = tl.load(counts + ids, mask=wanted & (ids < counted), other=0).to(tl.float32)
    value = value - presence * (count > 0).to(tl.float32)
    value = value - frequency * count
    bits = (value + 0.0).to(tl.int32, bitcast=True)  # + 0.0 turns -0.0 into 0.0
    ordered = tl.where(bits >= 0, bits, bits ^ 0x7FFFFFFF).to(tl.int64)
    return tl.where(wanted, (ordered << 32) | (ids ^ LAST_ID).to(tl.int64), NOTHING)


@triton.jit
def _id_of(key):
    return (key & LAST_ID).to(tl.int32) ^ LAST_ID


@triton.jit
def _value_of(key):
    """float64 of the float32 within a key."""
    ordered = (key >> 32).to(tl.int32)
    bits = tl.where(ordered >= 0, ordered, ordered ^ 0x7FFFFFFF)
    return bits.to(tl.float32, bitcast=True).to(tl.float64)


@triton.jit
def _mix(value):
    value = value + WEYL
    value = (value ^ (value >> 30)) * FIRST_FACTOR
    value = (value ^ (value >> 27)) * SECOND_FACTOR
    return value ^ (value >> 31)


@triton.jit
def _uniform(seed, position, purpose):
    """`random.uniform` of one row: all three int64, the arithmetic in unsigned integers."""
    mixed = _mix(seed.to(tl.uint64))
    mixed = _mix(mixed + position.to(tl.uint64))
    mixed = _mix(mixed + purpose.to(tl.uint64))
    return (mixed >> 11).to(tl.float64) * UNIT


@triton.jit
def _settings(numbers, slot, token_domain):
    """(temperature, top_p, min_p, presence, frequency, `counted`) of a slot. A greedy row has no penalties, and without
    any no counters are read."""
    temperature = tl.load(numbers + slot * 5)
    top_p = tl.load(numbers + slot * 5 + 1)
    min_p = tl.load(numbers + slot * 5 + 2)
    sampled = temperature > 0
    presence = tl.where(sampled, tl.load(numbers + slot * 5 + 3), 0.0)
    frequency = tl.where(sampled, tl.load(numbers + slot * 5 + 4), 0.0)
    counted = tl.where((presence != 0.0) | (frequency != 0.0), token_domain, 0)
    return temperature, top_p, min_p, presence, frequency, counted


@triton.jit
def _best(keys, wanted, RANKS: tl.constexpr):
    """The `wanted` greatest of the keys, the greatest first, then NOTHING: [RANKS]. One after the other: Triton's own
    `topk` takes a third longer here and minutes to compile."""
    rank = tl.arange(0, RANKS)
    best = tl.full([RANKS], NOTHING, tl.int64)
    for turn in range(wanted):
        highest = tl.max(keys, axis=0)
        best = tl.where(rank == turn, highest, best)
        keys = tl.where(keys == highest, NOTHING, keys)
    return best


@triton.jit
def _drawn(best, temperature, top_p, min_p, random, RANKS: tl.constexpr):
    """The id drawn from the keys `best` [RANKS], the greatest first."""
    rank = tl.arange(0, RANKS)
    values = _value_of(best)
    first = tl.sum(tl.where(rank == 0, values, 0.0), axis=0)
    weights = tl.exp((values - first) / temperature.to(tl.float64))
    weights = tl.where(best != NOTHING, weights, 0.0)
    reached = tl.cumsum(weights, axis=0)
    whole = tl.max(reached, axis=0)
    before = reached - weights
    kept = (weights >= min_p.to(tl.float64)) & (before < top_p.to(tl.float64) * whole)
    kept = ((rank == 0) | kept) & (weights > 0.0)
    # Weights fall and their sums rise, so what is kept is a prefix, and its sums stay as they are.
    whole = tl.max(tl.where(kept, reached, 0.0), axis=0)
    below = (whole.to(tl.int64, bitcast=True) - 1).to(tl.float64, bitcast=True)
    aim = tl.minimum(random * whole, below)  # the product may round up to the whole
    choice = tl.sum((kept & (reached <= aim)).to(tl.int32), axis=0)
    return tl.sum(tl.where(rank == choice, _id_of(best), 0), axis=0)


@triton.jit
def group_maxima(
    logits,
    logits_stride,
    counts,
    counts_stride,
    slots,
    numbers,
    maxima,
    columns,
    token_domain,
    groups,
    GROUP: tl.constexpr,
    GROUPS: tl.constexpr,
):
    """maxima[row, group] = the best key of the group, for GROUPS groups of one row."""
    row = tl.program_id(1).to(tl.int64)
    slot = tl.load(slots + row // columns)
    _, _, _, presence, frequency, counted = _settings(numbers, slot, token_domain)
    group = tl.program_id(0) * GROUPS + tl.arange(0, GROUPS)
    ids = group[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    keys = _keys(
        logits + row * logits_stride,
        counts + slot * counts_stride,
        ids,
        ids < token_domain,
        presence,
        frequency,
        counted,
    )
    tl.store(maxima + row * groups + group, tl.max(keys, axis=1), mask=group < groups)


@triton.jit
def draw(
    logits,
    logits_stride,
    counts,
    counts_stride,
    slots,
    positions,
    numbers,
    top_k,
    seeds,
    maxima,
    tokens,
    candidates,
    candidates_stride,
    columns,
    token_domain,
    groups,
    purpose,
    GROUP: tl.constexpr,
    ALL_GROUPS: tl.constexpr,
    RANKS: tl.constexpr,
):
    """tokens[row] = candidates[slot, column] = the token of one row. ALL_GROUPS and RANKS
    are powers of two that hold all groups and all candidates."""
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + row // columns)
    temperature, top_p, min_p, presence, frequency, counted = _settings(numbers, slot, token_domain)
    every = tl.arange(0, ALL_GROUPS)
    keys = tl.load(maxima + row * groups + every, mask=every < groups, other=NOTHING)
    if temperature > 0:
        wanted = tl.load(top_k + slot).to(tl.int32)
        best = _best(keys, wanted, RANKS)
        ids = (_id_of(best) // GROUP)[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
        present = (best != NOTHING)[:, None] & (ids < token_domain)
        row_logits, row_counts = logits + row * logits_stride, counts + slot * counts_stride
        tile = _keys(row_logits, row_counts, ids, present, presence, frequency, counted)
        best = _best(tl.reshape(tile, [RANKS * GROUP]), wanted, RANKS)
        random = _uniform(tl.load(seeds + slot), tl.load(positions + row), purpose)
        token = _drawn(best, temperature, top_p, min_p, random, RANKS)
    else:
        token = _id_of(tl.max(keys, axis=0))
    token = token.to(tl.int64)
    tl.store(tokens + row, token)
    tl.store(candidates + slot * candidates_stride + row % columns, token)


RANKS = triton.next_power_of_2(CANDIDATES)


@dataclass(frozen=True, slots=True)
class Launch:
    """Constants of the two launches: tokens of a group, groups of a program of the first, warps of both."""

    group_tokens: int
    program_groups: int
    maxima_warps: int
    draw_warps: int


class TritonSampler:
    """Implements `Sampler`."""

    __slots__ = ("_launch",)

    def __init__(self, launch: Launch) -> None:
        self._launch = launch

    def sample(
        self,
        logits: torch.Tensor,
        table: SamplerTable,
        counts: torch.Tensor,
        slots: torch.Tensor,
        positions: torch.Tensor,
        token_domain: int,
        candidates: torch.Tensor,
        purpose: Purpose = Purpose.TOKEN,
    ) -> torch.Tensor:
        """See `Sampler`."""
        launch, rows = self._launch, logits.shape[0]
        columns = rows // slots.shape[0]
        groups = triton.cdiv(token_domain, launch.group_tokens)
        maxima = torch.empty(rows, groups, dtype=torch.int64, device=logits.device)
        tokens = torch.empty(rows, dtype=torch.int64, device=logits.device)
        # Products and sums are rounded one by one, as in torch: a fused one would order penalised logits differently.
        group_maxima[(triton.cdiv(groups, launch.program_groups), rows)](
            logits,
            logits.stride(0),
            counts,
            counts.stride(0),
            slots,
            table.numbers,
            maxima,
            columns,
            token_domain,
            groups,
            GROUP=launch.group_tokens,
            GROUPS=launch.program_groups,
            num_warps=launch.maxima_warps,
            enable_fp_fusion=False,
        )
        draw[(rows,)](
            logits,
            logits.stride(0),
            counts,
            counts.stride(0),
            slots,
            positions,
            table.numbers,
            table.top_k,
            table.seeds,
            maxima,
            tokens,
            candidates,
            candidates.stride(0),
            columns,
            token_domain,
            groups,
            int(purpose),
            GROUP=launch.group_tokens,
            ALL_GROUPS=triton.next_power_of_2(groups),
            RANKS=RANKS,
            num_warps=launch.draw_warps,
            enable_fp_fusion=False,
        )
        return tokens
