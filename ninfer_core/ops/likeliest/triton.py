"""The likeliest token in two launches: the best of every block of logits on as many programs, then the best of those.

One program of the first launch reads so little that all of a vocabulary's are under way at once.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ninfer_core.ops.kernels.keys import NOTHING, id_of, logits_at, packed
from ninfer_core.ops.workspace.likeliest import BLOCK_LOGITS


def likeliest(logits: torch.Tensor, token_ids: torch.Tensor | None) -> torch.Tensor:
    """logits [rows, columns, proposed] -> int64 [rows, columns]; see the package."""
    rows, columns, proposed = logits.shape
    flat = logits.flatten(0, 1)
    blocks = triton.cdiv(proposed, BLOCK_LOGITS)
    keys = torch.empty(rows * columns, blocks, dtype=torch.int64, device=logits.device)
    best = torch.empty(rows, columns, dtype=torch.int64, device=logits.device)
    best_of_blocks[(blocks, rows * columns)](
        flat, flat.stride(0), keys, proposed, blocks, BLOCK=BLOCK_LOGITS, num_warps=4
    )
    best_of_all[(rows * columns,)](
        keys, token_ids, best, blocks, ALL_BLOCKS=triton.next_power_of_2(blocks), num_warps=1
    )
    return best


@triton.jit(do_not_specialize=["blocks"])
def best_of_blocks(logits, logits_stride, keys, proposed, blocks, BLOCK: tl.constexpr):
    """keys[column, block]: the best of one block of one column."""
    column = tl.program_id(1).to(tl.int64)
    block = tl.program_id(0)
    ids = block * BLOCK + tl.arange(0, BLOCK)
    inside = ids < proposed
    value = logits_at(logits + column * logits_stride, ids, inside)
    tl.store(keys + column * blocks + block, tl.max(packed(value, ids, inside), axis=0))


@triton.jit(do_not_specialize=["blocks"])
def best_of_all(keys, token_ids, best, blocks, ALL_BLOCKS: tl.constexpr):
    """The token of one column. `token_ids` may be None."""
    column = tl.program_id(0).to(tl.int64)
    block = tl.arange(0, ALL_BLOCKS)
    of_block = tl.load(keys + column * blocks + block, mask=block < blocks, other=NOTHING)
    token = id_of(tl.max(of_block, axis=0)).to(tl.int64)
    if token_ids is not None:
        token = tl.load(token_ids + token)
    tl.store(best + column, token)
