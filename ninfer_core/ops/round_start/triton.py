"""The beginning of a round in one launch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from ninfer_core.ops.round_start.reference import RoundInputs, SlotState

BLOCK_TABLE_ENTRIES = 1024
"""Entries of a block table that one program copies."""
ALIGNED_ROWS = 8
"""Rows whose numbers fill a multiple of 16 bytes."""


def start_round(inputs: torch.Tensor, state: SlotState, columns: int) -> RoundInputs:
    """inputs [3, rows] -> the inputs of `columns` new columns; see the package."""
    rows, blocks = inputs.shape[1], state.block_tables.shape[1]
    wide = (columns, columns, columns, columns)
    parts = _aligned(rows, (1, 1, 1, 1, 1, 1, *wide), state.lengths.device)
    slots, folded, pending, anchors, lengths, seeds, positions, chosen, pending_positions, pending_ids = parts
    temperature = torch.empty(rows, dtype=torch.float32, device=state.lengths.device)
    block_table = torch.empty(rows, blocks, dtype=torch.int32, device=state.lengths.device)
    start_kernel[(rows, triton.cdiv(blocks, BLOCK_TABLE_ENTRIES))](
        inputs,
        state.candidates,
        state.offered,
        state.lengths,
        state.block_tables,
        state.penalty_counts,
        state.table.numbers,
        state.table.seeds,
        slots,
        folded,
        pending,
        anchors,
        lengths,
        positions,
        chosen,
        pending_positions,
        pending_ids,
        temperature,
        seeds,
        block_table,
        inputs.stride(0),
        blocks,
        state.penalty_counts.shape[1],
        state.table.numbers.stride(0),
        OFFERED=state.candidates.shape[1],
        COLUMNS=columns,
        MOST_COLUMNS=triton.next_power_of_2(max(columns, state.candidates.shape[1])),
        ENTRIES=BLOCK_TABLE_ENTRIES,
        num_warps=4,
    )
    return RoundInputs(
        slots=slots,
        folded=folded,
        pending=pending,
        anchors=anchors.view(rows, 1),
        lengths=lengths,
        positions=positions.view(rows, columns),
        chosen_positions=chosen.view(rows, columns),
        block_table=block_table,
        pending_positions=pending_positions.view(rows, columns),
        pending_ids=pending_ids.view(rows, columns),
        temperature=temperature,
        seeds=seeds,
    )


def _aligned(rows: int, columns: Sequence[int], device: torch.device) -> list[torch.Tensor]:
    """int64 [rows · each] for each of `columns`, in one allocation, each part aligned: what reads them is compiled
    once for every number of rows."""
    padded = triton.cdiv(rows, ALIGNED_ROWS) * ALIGNED_ROWS
    parts = torch.empty(padded * sum(columns), dtype=torch.int64, device=device).split([padded * n for n in columns])
    return [part[: rows * n] for part, n in zip(parts, columns, strict=True)]


@triton.jit(do_not_specialize=["inputs_stride", "blocks", "vocabulary_rows"])
def start_kernel(
    inputs,
    candidates,
    offered,
    lengths,
    block_tables,
    penalty_counts,
    sampler_numbers,
    sampler_seeds,
    out_slots,
    out_folded,
    out_pending,
    out_anchors,
    out_lengths,
    out_positions,
    out_chosen,
    out_pending_positions,
    out_pending_ids,
    out_temperature,
    out_seeds,
    out_block_table,
    inputs_stride,
    blocks,
    vocabulary_rows,
    numbers_stride,
    OFFERED: tl.constexpr,
    COLUMNS: tl.constexpr,
    MOST_COLUMNS: tl.constexpr,
    ENTRIES: tl.constexpr,
):
    """Grid (rows, pieces of a block table): every program copies its piece, the first of a row does the rest."""
    row = tl.program_id(0)
    piece = tl.program_id(1)
    slot = tl.load(inputs + row)
    entry = piece * ENTRIES + tl.arange(0, ENTRIES)
    page = tl.load(block_tables + slot * blocks + entry, mask=entry < blocks)
    tl.store(out_block_table + row.to(tl.int64) * blocks + entry, page, mask=entry < blocks)
    if piece == 0:
        most = tl.load(offered + slot)
        counted = tl.minimum(tl.load(inputs + inputs_stride + row), most)
        folded = tl.minimum(tl.load(inputs + 2 * inputs_stride + row), most)
        column = tl.arange(0, MOST_COLUMNS)
        token = tl.load(candidates + slot * OFFERED + column, mask=column < OFFERED, other=0)
        temperature = tl.load(sampler_numbers + slot * numbers_stride)
        added = tl.where(temperature > 0, counted, 0)
        counters = penalty_counts + slot * vocabulary_rows + token
        one = tl.full([MOST_COLUMNS], 1, tl.int32)
        tl.atomic_add(counters, one, mask=column < tl.minimum(added, OFFERED), sem="relaxed")
        last = tl.maximum(counted - 1, 0)
        tl.store(out_slots + row, slot)
        tl.store(out_folded + row, folded)
        pending = tl.maximum(folded, 1)
        tl.store(out_pending + row, pending)
        tl.store(out_temperature + row, temperature)
        tl.store(out_seeds + row, tl.load(sampler_seeds + slot))
        tl.store(out_anchors + row, tl.load(candidates + slot * OFFERED + last))
        length = tl.load(lengths + slot) + folded
        tl.store(lengths + slot, length)
        tl.store(out_lengths + row, length)
        position = length + column
        inside, place = column < COLUMNS, row * COLUMNS + column
        tl.store(out_positions + place, position, mask=inside)
        tl.store(out_chosen + place, position + 1, mask=inside)
        tl.store(out_pending_positions + place, position - pending, mask=inside)
        tl.store(out_pending_ids + place, token, mask=inside)
