"""The beginning of a round in plain torch."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ninfer_core.ops.sample import SamplerTable, count_tokens


@dataclass(frozen=True, slots=True)
class SlotState:
    """What a round begins from, by slot; see the package for shapes."""

    candidates: torch.Tensor
    offered: torch.Tensor
    lengths: torch.Tensor
    block_tables: torch.Tensor
    penalty_counts: torch.Tensor
    table: SamplerTable


@dataclass(frozen=True, slots=True)
class RoundInputs:
    """What the round's columns begin with, row by row; see the package for shapes."""

    slots: torch.Tensor
    folded: torch.Tensor
    pending: torch.Tensor
    anchors: torch.Tensor
    lengths: torch.Tensor
    positions: torch.Tensor
    chosen_positions: torch.Tensor
    block_table: torch.Tensor
    pending_positions: torch.Tensor
    pending_ids: torch.Tensor
    temperature: torch.Tensor
    seeds: torch.Tensor


def start_round(inputs: torch.Tensor, state: SlotState, columns: int) -> RoundInputs:
    """inputs [3, rows] -> the inputs of `columns` new columns; see the package."""
    slots, counted, folded = inputs.to(state.lengths.device).unbind(0)
    offered = state.offered.index_select(0, slots)
    counted, folded = torch.minimum(counted, offered), torch.minimum(folded, offered)
    previous = state.candidates.index_select(0, slots)
    temperature = state.table.numbers.index_select(0, slots)[:, 0]
    count_tokens(state.penalty_counts, slots, previous, counted, temperature)
    lengths = state.lengths.index_select(0, slots) + folded
    state.lengths.index_copy_(0, slots, lengths)
    positions = lengths.unsqueeze(1) + torch.arange(columns, device=lengths.device)
    pending = folded.clamp(min=1)
    return RoundInputs(
        slots=slots,
        folded=folded,
        pending=pending,
        anchors=previous.gather(1, (counted - 1).clamp(min=0).unsqueeze(1)),
        lengths=lengths,
        positions=positions,
        chosen_positions=positions + 1,
        block_table=state.block_tables.index_select(0, slots),
        pending_positions=positions - pending.unsqueeze(1),
        pending_ids=previous[:, :columns],
        temperature=temperature,
        seeds=state.table.seeds.index_select(0, slots),
    )
