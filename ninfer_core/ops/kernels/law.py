"""Random numbers, settings and laws of rows, as `ops.sample` defines them."""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.kernels.keys import NOTHING, value_of

UNIT: tl.constexpr = tl.constexpr(2.0**-53)
WEYL: tl.constexpr = tl.constexpr(0x9E3779B97F4A7C15)
FIRST_FACTOR: tl.constexpr = tl.constexpr(0xBF58476D1CE4E5B9)
SECOND_FACTOR: tl.constexpr = tl.constexpr(0x94D049BB133111EB)


@triton.jit
def _mix(value):
    value = value + WEYL
    value = (value ^ (value >> 30)) * FIRST_FACTOR
    value = (value ^ (value >> 27)) * SECOND_FACTOR
    return value ^ (value >> 31)


@triton.jit
def uniform_of(seed, position, purpose):
    """`ops.sample.uniform` of one row: int64 each, the arithmetic in unsigned integers."""
    mixed = _mix(seed.to(tl.uint64))
    mixed = _mix(mixed + position.to(tl.uint64))
    mixed = _mix(mixed + purpose)
    return (mixed >> 11).to(tl.float64) * UNIT


@triton.jit
def settings_of(numbers, slot, token_domain):
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
def weights_of(best, temperature, top_p, min_p, RANKS: tl.constexpr):
    """float64 [RANKS]: the weight of each of the keys `best`, the greatest first, and 0 where a filter drops it."""
    rank = tl.arange(0, RANKS)
    values = value_of(best).to(tl.float64)
    first = tl.sum(tl.where(rank == 0, values, 0.0), axis=0)
    weights = tl.exp((values - first) / temperature.to(tl.float64))
    weights = tl.where(best != NOTHING, weights, 0.0)
    reached = tl.cumsum(weights, axis=0)
    before = reached - weights
    kept = (weights >= min_p.to(tl.float64)) & (before < top_p.to(tl.float64) * tl.max(reached, axis=0))
    return tl.where((rank == 0) | kept, weights, 0.0)


@triton.jit
def pick(weights, ids, random, RANKS: tl.constexpr):
    """One of `ids` [RANKS] in proportion to its weight; the first where weights are no numbers."""
    rank = tl.arange(0, RANKS)
    reached = tl.cumsum(weights, axis=0)
    there = weights > 0.0
    whole = tl.max(tl.where(there, reached, 0.0), axis=0)
    below = (whole.to(tl.int64, bitcast=True) - 1).to(tl.float64, bitcast=True)
    aim = tl.minimum(random * whole, below)  # the product may round up to the whole
    passed = tl.min(tl.where(there & (reached > aim), rank, RANKS), axis=0)
    return tl.sum(tl.where(rank == tl.where(passed < RANKS, passed, 0), ids, 0), axis=0)
