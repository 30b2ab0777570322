"""A memory [key_dim, value_dim] in the registers of one program, and what rounds and folds do with it.

Each of WARPS warps has a part of the values to itself, and SHARING of its lanes share the keys of a value. So what is
summed over keys is summed by a thread, and then by lanes of one warp: columns of a round do not wait for other warps on
the way. Axes of a held memory: [sharing, warps, steps, inner], the key at lane · steps + step, the value at
warp · inner + place.

What a round and its fold must agree on to the bit is fused by hand: a compiler that chose for itself what to fuse could
choose differently in each.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _places(KEY_DIM: tl.constexpr, VALUE_DIM: tl.constexpr, WARPS: tl.constexpr, SHARING: tl.constexpr):
    """Where the elements lie, [steps · warps, sharing · inner]: consecutive lines belong to consecutive warps, and a
    lane finds four values side by side, in the layout that Triton gives a load of such a block."""
    INNER: tl.constexpr = VALUE_DIM // WARPS
    STEPS: tl.constexpr = KEY_DIM // SHARING
    line = tl.arange(0, STEPS * WARPS)[:, None]
    spot = tl.arange(0, SHARING * INNER)[None, :]
    key = spot // INNER * STEPS + line // WARPS
    return key * VALUE_DIM + line % WARPS * INNER + spot % INNER


@triton.jit
def load_memory(home, KEY_DIM: tl.constexpr, VALUE_DIM: tl.constexpr, WARPS: tl.constexpr, SHARING: tl.constexpr):
    """The memory of one head at `home`, held. Like all that a round reads before it waits, from beyond the cache of the
    multiprocessor (`ops.kernels.dependent`)."""
    block = tl.load(home + _places(KEY_DIM, VALUE_DIM, WARPS, SHARING), cache_modifier=".cg")
    apart = tl.reshape(block, (KEY_DIM // SHARING, WARPS, SHARING, VALUE_DIM // WARPS))
    return tl.permute(apart, (2, 1, 0, 3))


@triton.jit
def store_memory(
    home, held, KEY_DIM: tl.constexpr, VALUE_DIM: tl.constexpr, WARPS: tl.constexpr, SHARING: tl.constexpr
):
    block = tl.reshape(tl.permute(held, (2, 1, 0, 3)), (KEY_DIM // SHARING * WARPS, SHARING * VALUE_DIM // WARPS))
    tl.store(home + _places(KEY_DIM, VALUE_DIM, WARPS, SHARING), block)


@triton.jit
def along_keys(vector, SHARING: tl.constexpr):
    """[key_dim] -> beside a held memory, the same for all values."""
    return tl.reshape(vector, (SHARING, vector.shape[0] // SHARING))[:, None, :, None]


@triton.jit
def _along_values(vector, WARPS: tl.constexpr):
    """[value_dim] -> beside a held memory, the same for all keys."""
    return tl.reshape(vector, (WARPS, vector.shape[0] // WARPS))[None, :, None, :]


@triton.jit
def read_out(held, key):
    """heldᵀ key, [value_dim], for a key `along_keys`."""
    return tl.reshape(tl.sum(tl.sum(held * key, 2), 0), (held.shape[1] * held.shape[3],))


@triton.jit
def stepped(held, growth, key, update):
    """growth · held + key updateᵀ, for a key `along_keys` and an update [value_dim]."""
    decayed = held * growth
    along = _along_values(update, held.shape[1])
    outer = tl.broadcast_to(key, decayed.shape), tl.broadcast_to(along, decayed.shape)
    return tl.fma(outer[0], outer[1], decayed)


@triton.jit
def _recorded(key_home, update_home, decay_home, place, KEYS: tl.constexpr, UPDATES: tl.constexpr, HEADS: tl.constexpr):
    """Key, update and decay of one column."""
    key = tl.load(key_home + place * KEYS, cache_modifier=".cg")
    update = tl.load(update_home + place * UPDATES, cache_modifier=".cg")
    return key, update, tl.load(decay_home + place * HEADS, cache_modifier=".cg")


@triton.jit
def first_recorded(
    key_ring,
    update_ring,
    decay_ring,
    slot,
    head,
    first,
    KEY_HEADS: tl.constexpr,
    VALUE_HEADS: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    RING: tl.constexpr,
):
    """What the column at position `first` left, and where that of position 0 is: see `folded`."""
    key_home = key_ring + slot * (RING * KEY_HEADS * KEY_DIM) + head // (VALUE_HEADS // KEY_HEADS) * KEY_DIM
    key_home += tl.arange(0, KEY_DIM)
    update_home = update_ring + slot * (RING * VALUE_HEADS * VALUE_DIM) + head * VALUE_DIM + tl.arange(0, VALUE_DIM)
    decay_home = decay_ring + slot * (RING * VALUE_HEADS) + head
    homes = key_home, update_home, decay_home
    return _recorded(
        key_home, update_home, decay_home, first % RING, KEY_HEADS * KEY_DIM, VALUE_HEADS * VALUE_DIM, VALUE_HEADS
    ), homes


@triton.jit
def folded(
    held,
    column,
    homes,
    first,
    taken,
    KEY_HEADS: tl.constexpr,
    VALUE_HEADS: tl.constexpr,
    KEY_DIM: tl.constexpr,
    VALUE_DIM: tl.constexpr,
    RING: tl.constexpr,
):
    """`held` with the recorded columns at positions [first, first + taken); `column` is the first of them."""
    key, update, decay = column
    for done in range(taken):
        held = stepped(held, tl.exp(decay), along_keys(key, held.shape[0]), update)
        if RING > 2:
            # The next column is asked for while this one is folded; the one behind the last is asked for in vain.
            key, update, decay = _recorded(
                homes[0], homes[1], homes[2], (first + done + 1) % RING,
                KEY_HEADS * KEY_DIM, VALUE_HEADS * VALUE_DIM, VALUE_HEADS,
            )  # fmt: skip
    return held
