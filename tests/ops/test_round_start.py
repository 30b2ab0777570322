"""The beginning of a round: what was taken is counted, and the new columns begin where the last ones were accepted."""

from __future__ import annotations

import pytest
import torch

from ninfer_core.ops.round_start import RoundInputs, SlotState, start_round
from ninfer_core.ops.sample import SamplerTable

SLOTS, VOCABULARY = 5, 50


def state(device: torch.device, offered: int, blocks: int) -> SlotState:
    greedy_slot = 1
    numbers = torch.ones(SLOTS, 5)
    numbers[greedy_slot, 0] = 0.0
    seeds = torch.randint(-(1 << 60), 1 << 60, (SLOTS,))
    table = SamplerTable(numbers.to(device), torch.ones(SLOTS, dtype=torch.int64), seeds.to(device))
    return SlotState(
        candidates=torch.randint(0, VOCABULARY, (SLOTS, offered)).to(device),
        offered=torch.full((SLOTS,), offered, device=device),
        lengths=torch.randint(0, 10_000, (SLOTS,)).to(device),
        block_tables=torch.randint(0, 1000, (SLOTS, blocks), dtype=torch.int32).to(device),
        penalty_counts=torch.randint(0, 3, (SLOTS, VOCABULARY), dtype=torch.int32).to(device),
        table=table,
    )


def expected(inputs: list[tuple[int, int, int]], before: SlotState, columns: int) -> tuple[RoundInputs, SlotState]:
    """By the words of the contract, number by number."""
    counts, lengths = before.penalty_counts.clone(), before.lengths.clone()
    anchors, positions, kept = [], [], []
    for slot, most_counted, most_folded in inputs:
        counted, folded = (min(most, int(before.offered[slot])) for most in (most_counted, most_folded))
        kept.append(folded)
        tokens = before.candidates[slot].tolist()
        for token in tokens[:counted]:
            counts[slot, token] += int(before.table.numbers[slot, 0] > 0)
        lengths[slot] += folded
        anchors.append([tokens[max(counted - 1, 0)]])
        positions.append([int(lengths[slot]) + column for column in range(columns)])
    slots = torch.tensor([slot for slot, _, _ in inputs])
    made = RoundInputs(
        slots,
        torch.tensor(kept),
        torch.tensor([max(folded, 1) for folded in kept]),
        torch.tensor(anchors),
        lengths[slots],
        torch.tensor(positions),
        torch.tensor(positions) + 1,
        before.block_tables[slots],
        torch.tensor([[each - max(number, 1) for each in row] for row, number in zip(positions, kept, strict=True)]),
        before.candidates[slots],
        before.table.numbers[slots, 0],
        before.table.seeds[slots],
    )
    return made, SlotState(before.candidates, before.offered, lengths, before.block_tables, counts, before.table)


@pytest.mark.parametrize(
    ("inputs", "columns", "blocks"),
    [
        ([(3, 1, 0)], 1, 7),
        ([(0, 1, 1), (4, 1, 0), (1, 1, 1)], 1, 1030),
        ([(2, 0, 0), (1, 4, 4), (0, 3, 3), (4, 1, 0)], 4, 2048),
        ([(3, 16, 16), (0, 9, 9)], 16, 5),
    ],
)
@pytest.mark.parametrize("route", ["reference", "kernel"])
def test_a_round_begins_where_the_last_one_was_accepted(
    inputs: list[tuple[int, int, int]], columns: int, blocks: int, route: str, kernel_device: torch.device
) -> None:
    from ninfer_core.ops.round_start import triton as kernels

    before = state(torch.device("cpu"), offered=columns, blocks=blocks)
    before.candidates[1] = 7  # the same token several times over
    # Fewer than the round is told to take at most, in some slots.
    before.offered[:3] = torch.tensor([max(1, columns - 2), columns, max(1, columns // 2)])
    made, after = expected(inputs, before, columns)
    device = torch.device("cpu") if route == "reference" else kernel_device
    there = SlotState(
        before.candidates.to(device),
        before.offered.to(device),
        before.lengths.to(device),
        before.block_tables.to(device),
        before.penalty_counts.to(device),
        SamplerTable(before.table.numbers.to(device), before.table.top_k, before.table.seeds.to(device)),
    )
    padded = torch.full((3, 8), 1 << 40, dtype=torch.int64, device=device)
    padded[:, : len(inputs)] = torch.tensor(inputs).T
    start = start_round if route == "reference" else kernels.start_round
    got = start(padded[:, : len(inputs)], there, columns)
    for name in RoundInputs.__slots__:
        assert torch.equal(getattr(got, name).cpu(), getattr(made, name)), name
    assert torch.equal(there.lengths.cpu(), after.lengths)
    assert torch.equal(there.penalty_counts.cpu(), after.penalty_counts)
