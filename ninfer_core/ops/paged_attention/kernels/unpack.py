"""What a row's pages hold, decoded once: chunks look at every tile many times, and narrow codes decode slowly."""

from __future__ import annotations

import triton
import triton.language as tl

from ninfer_core.ops.paged_attention.kernels.tile import rows_of


@triton.jit
def load_plain(planes, rows, seen, HEAD_DIM: tl.constexpr, DTYPE: tl.constexpr):
    """`load` of one plane that has the values themselves, in DTYPE."""
    places = rows[:, None] * HEAD_DIM + tl.arange(0, HEAD_DIM)[None, :]
    return tl.load(planes[0] + places, mask=seen[:, None], other=0.0)


@triton.jit(do_not_specialize=["columns", "blocks", "pages"], do_not_specialize_on_alignment=["block_table", "lengths"])
def unpack(
    planes,  # of one part
    out,  # [rows, pages, KV_HEADS, PAGE_TOKENS, HEAD_DIM]: written up to the row's last token
    block_table,  # [rows, blocks]
    lengths,  # [rows]
    columns,  # of the unit of work, stored already
    blocks,
    pages,
    KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    PAGE_TOKENS: tl.constexpr,
    TOKENS: tl.constexpr,  # divides PAGE_TOKENS
    LOAD: tl.constexpr,
    SCALE: tl.constexpr,
    LANES: tl.constexpr,
):
    """One program for TOKENS tokens of a head."""
    head, step, row = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    start = step * TOKENS
    end = tl.load(lengths + row).to(tl.int32) + columns
    if start >= end:
        return
    page = tl.load(block_table + row * blocks + start // PAGE_TOKENS)
    rows = rows_of(page, head, start, KV_HEADS, PAGE_TOKENS, TOKENS)
    seen = start + tl.arange(0, TOKENS) < end
    x = LOAD(planes, rows, seen, HEAD_DIM, tl.float32)
    if LANES == 2:
        x = tl.reshape(tl.join(x[0], x[1]), (TOKENS, HEAD_DIM))
    if SCALE is not None:
        x = x * SCALE(planes, rows, seen)[:, None]
    there = rows_of(row.to(tl.int64) * pages + start // PAGE_TOKENS, head, start, KV_HEADS, PAGE_TOKENS, TOKENS)
    tl.store(out + there[:, None] * HEAD_DIM + tl.arange(0, HEAD_DIM)[None, :], x.to(out.dtype.element_ty))
