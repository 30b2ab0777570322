"""The steps between a token and its experts that the kernels for few and for many tokens share."""

from __future__ import annotations

import triton
import triton.language as tl

WORST: tl.constexpr = tl.constexpr(-(1 << 63))
"""Below every key."""


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
    tl.store(openings + token, 1.0 / (1.0 + tl.exp(-opening)))
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
    """scores [BLOCK_T, EXPERTS_PADDED] float32 -> `experts` and `shares` [tokens, TOP_K] of these tokens.

    A score and its expert become one integer in the order of the contract, so that no two are equal. The share is the
    softmax over the chosen scores, which is what dividing the probabilities by their sum comes to. Returns the experts,
    their places in `experts`, and which of these there are.
    """
    TOP_PADDED: tl.constexpr = triton.next_power_of_2(TOP_K)
    expert = tl.arange(0, EXPERTS_PADDED)
    bits = (scores + 0.0).to(tl.int32, bitcast=True)  # + 0.0 turns -0.0 into 0.0
    ordered = tl.where(bits >= 0, bits, bits ^ 0x7FFFFFFF).to(tl.int64)
    keys = (ordered << 32) | (EXPERTS_PADDED - 1 - expert).to(tl.int64)[None, :]
    keys = tl.where((expert < EXPERTS)[None, :], keys, WORST)
    places = tl.arange(0, TOP_PADDED)
    chosen = tl.zeros([BLOCK_T, TOP_PADDED], tl.int32)
    best = tl.full([BLOCK_T, TOP_PADDED], float("-inf"), tl.float32)
    for place in tl.static_range(TOP_K):
        key = tl.max(keys, 1)
        keys = tl.where(keys == key[:, None], WORST, keys)
        ordered = (key >> 32).to(tl.int32)
        value = tl.where(ordered >= 0, ordered, ordered ^ 0x7FFFFFFF).to(tl.float32, bitcast=True)
        here = (places == place)[None, :]
        chosen = tl.where(here, (EXPERTS_PADDED - 1 - (key & 0x7FFFFFFF)).to(tl.int32)[:, None], chosen)
        best = tl.where(here, value[:, None], best)
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
