"""A logit and its token as one integer in the order of the contract, so that no two are equal, and the best of many.

The k best tokens lie in the k groups of tokens with the best maxima, because a token of any other group has k better
ones above it.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.kernels.order import ordered_bits, value_of_bits

NOTHING: tl.constexpr = tl.constexpr(-(1 << 63))
"""Below every key: where there is no token."""
LAST_ID: tl.constexpr = tl.constexpr(0x7FFFFFFF)
"""All bits that an id can have: id ^ LAST_ID falls as the id rises."""


@triton.jit
def logits_at(logits, ids, wanted):
    """float32 of the tokens `ids` of one row, where `wanted`."""
    return tl.load(logits + ids, mask=wanted, other=0.0).to(tl.float32)


@triton.jit
def keys_of(value, counts, ids, wanted, presence, frequency, counted, drafts, drafted):
    """Keys of the tokens `ids` of one row with logits `value`, NOTHING where not `wanted`. Greater is better, the lower
    id of equals. Counters are read for ids below `counted`; if there are any, the first `drafted` of `drafts` are
    added. `counts` and `drafts` may be None."""
    if counts is not None:
        count = tl.load(counts + ids, mask=wanted & (ids < counted), other=0)
        if drafts is not None:
            for each in range(tl.where(counted > 0, drafted, 0)):
                count += (tl.load(drafts + each) == ids).to(tl.int32)
        count = count.to(tl.float32)
        value = value - presence * (count > 0).to(tl.float32)
        value = value - frequency * count
    return packed(value, ids, wanted)


@triton.jit
def packed(value, ids, wanted):
    """Keys of tokens `ids` with float32 values, NOTHING where not `wanted`."""
    return tl.where(wanted, (ordered_bits(value).to(tl.int64) << 32) | (ids ^ LAST_ID).to(tl.int64), NOTHING)


@triton.jit
def id_of(key):
    return (key & LAST_ID).to(tl.int32) ^ LAST_ID


@triton.jit
def value_of(key):
    """float32 of a key."""
    return value_of_bits((key >> 32).to(tl.int32))


@triton.jit
def best_of(keys, wanted, RANKS: tl.constexpr):
    """The `wanted` greatest of the keys, the greatest first, then NOTHING: [RANKS]. Every key is compared with every
    other one: no step waits for the one before, as in a search for one after the other."""
    above = tl.sum((keys[None, :] > keys[:, None]).to(tl.int32), axis=1)
    rank = tl.arange(0, RANKS)
    here = (above[:, None] == rank[None, :]) & (rank < wanted)[None, :]
    return tl.max(tl.where(here, keys[:, None], NOTHING), axis=0)
