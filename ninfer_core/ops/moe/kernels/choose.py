"""The steps between a token and its experts that the kernels for few and for many tokens share."""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.kernels.activation import sigmoid
from ninfer_core.ops.kernels.order import ordered_bits, value_of_bits

WORST: tl.constexpr = tl.constexpr(-(1 << 31))
"""Below every score that is a number."""
LANE_EXPERTS: tl.constexpr = tl.constexpr(128)
"""Experts whose scores a warp loads at once: four a lane."""


@triton.jit
def prepare(
    x,
    norm_weight,
    epsilon,
    shared_gate,
    normed,
    openings,
    token,
    HIDDEN: tl.constexpr,
    HIDDEN_PADDED: tl.constexpr,
):
    """Store the normed token, and how far the gate of the shared expert is open. Returns the former, [HIDDEN_PADDED]
    as rounded."""
    column = tl.arange(0, HIDDEN_PADDED)
    there = column < HIDDEN
    weight = 1.0 + tl.load(norm_weight + column, mask=there, other=0.0).to(tl.float32)
    gate = tl.load(shared_gate + column, mask=there, other=0.0).to(tl.float32)
    wide = tl.load(x + token * HIDDEN + column, mask=there, other=0.0).to(tl.float32)
    value = wide * tl.rsqrt(tl.sum(wide * wide, 0) / HIDDEN + epsilon) * weight
    value = value.to(normed.dtype.element_ty)
    tl.store(normed + token * HIDDEN + column, value, mask=there)
    opening = tl.sum(value.to(tl.float32) * gate, 0)
    tl.store(openings + token, sigmoid(opening))
    return value


@triton.jit
def choose(
    scores,
    tokens,
    tokens_live,
    experts,
    shares,
    EXPERTS: tl.constexpr,
    EXPERTS_PADDED: tl.constexpr,
    TOP_K: tl.constexpr,
    BLOCK_T: tl.constexpr,
):
    """scores [all tokens, EXPERTS] float32 -> `experts` and `shares` [all tokens, TOP_K] of `tokens` [BLOCK_T].

    Of equal scores the lower expert is first. The share is the softmax over the chosen scores, which is what dividing
    the probabilities by their sum comes to. Returns the experts, their places in `experts`, and which of these there
    are. With as many warps as tokens, one has all scores of a token, and the search needs nothing of the others.
    """
    TOP_PADDED: tl.constexpr = triton.next_power_of_2(TOP_K)
    GROUPS: tl.constexpr = EXPERTS_PADDED // LANE_EXPERTS
    group = tl.arange(0, GROUPS)[None, :, None]
    expert = group * LANE_EXPERTS + tl.arange(0, LANE_EXPERTS)[None, None, :]
    there = expert < EXPERTS
    place = scores + tokens[:, None, None] * EXPERTS + expert
    # Past the cache of the multiprocessor: other programs of the launch may have written them.
    score = tl.load(place, mask=tokens_live[:, None, None] & there, other=0.0, cache_modifier=".cg")
    # 32-bit integers, whose maximum a warp finds in one instruction.
    ordered = tl.where(there, ordered_bits(score), WORST)
    places = tl.arange(0, TOP_PADDED)
    chosen = tl.zeros([BLOCK_T, TOP_PADDED], tl.int32)
    best = tl.full([BLOCK_T, TOP_PADDED], float("-inf"), tl.float32)
    for place in tl.static_range(TOP_K):
        highest = tl.max(tl.max(ordered, 1), 1)
        candidates = tl.where(ordered == highest[:, None, None], expert, EXPERTS_PADDED)
        first = tl.min(tl.min(candidates, 1), 1)
        ordered = tl.where(expert == first[:, None, None], WORST, ordered)
        here = (places == place)[None, :]
        chosen = tl.where(here, first[:, None], chosen)
        best = tl.where(here, value_of_bits(highest)[:, None], best)
    share = tl.exp(best - tl.max(best, 1)[:, None])
    offsets = tokens[:, None] * TOP_K + places[None, :]
    mask = tokens_live[:, None] & (places < TOP_K)[None, :]
    tl.store(experts + offsets, chosen, mask=mask)
    tl.store(shares + offsets, share / tl.sum(share, 1)[:, None], mask=mask)
    return chosen, offsets, mask


@triton.jit
def is_last(counter, arrivals):
    """Whether `arrivals - 1` other programs have come here before; the last one leaves the counter at zero.

    What the others stored before they came is visible to the last."""
    tl.debug_barrier()  # all stores of this program before its arrival
    before = tl.atomic_add(counter, 1, sem="acq_rel", scope="gpu")
    last = before == arrivals - 1
    if last:
        tl.store(counter, 0)
    return last
