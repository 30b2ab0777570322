"""Runs units of work on one device: the Program that the engine drives.

Between units the device holds, for every open row: its pages and state slot, its sampler, the candidates of its last
unit. A decode round is told N of each row and begins by folding exactly that much, so committed state never holds a
token that was not taken. Each round takes one copy to the device and one back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ninfer_core.api.kv import KVCodec
from ninfer_core.api.model import ForwardBatch, Model, RecurrentState
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.ops.sample import count_tokens, sample
from ninfer_core.program.cache import PagedCache, attention_routes
from ninfer_core.program.contract import RowRound, RowSetup, Sampling, Unit, UnitByUnit
from ninfer_core.program.pages import PagePool
from ninfer_core.program.pools import Pools
from ninfer_core.program.reservations import Reservation, release_row, reserve_row
from ninfer_core.program.slots import SlotPool
from ninfer_core.program.workspace import Workspace


@dataclass(slots=True)
class _Row:
    """The host's copy of what it needs to know. `length` counts committed tokens in the cache; `in_flight` is whether
    a decode round has left columns that are still to be folded; `offered` is how many candidates the last unit gave;
    `forced` is whether what it left as the anchor was not chosen but put there."""

    setup: RowSetup
    pages: tuple[int, ...]
    length: int = 0
    in_flight: bool = False
    offered: int = 0
    forced: bool = False

    def take(self, accepted: int) -> tuple[int, int]:
        """Say how many candidates are taken: -> those to count, and the columns to fold for them."""
        assert 1 <= accepted <= self.offered, f"N = {accepted} of {self.offered} candidates"
        counted = 0 if self.forced else accepted
        folded = accepted if self.in_flight else 0
        self.length += folded
        self.forced = False
        return counted, folded


class DeviceProgram(UnitByUnit):
    """Implements `ninfer_core.program.contract.Program` over a family's model. A row is named by its state slot."""

    def __init__(
        self,
        plan: ExecutionPlan,
        model: Model,
        codec: KVCodec,
        pools: Pools,
        workspace: Workspace,
        device: torch.device,
    ) -> None:
        assert plan.capacities.draft_tokens == 0, "rounds of more than one column need a drafter"
        self._model = model
        self._attention = attention_routes(plan, codec, device, kernels="auto")
        self._pools = pools
        self._workspace = workspace
        self._device = device
        self._columns = 1 + plan.capacities.draft_tokens
        self._token_domain = plan.token_domain
        self._prefill_chunk = plan.capacities.prefill_chunk
        self.pages = PagePool(pages=plan.capacities.kv_pages, page_tokens=plan.capacities.page_tokens)
        self.slots = SlotPool(plan.capacities.state_slots)
        self._rows: dict[int, _Row] = {}
        slots = plan.capacities.state_slots
        self._slot_index = torch.arange(slots, device=device)
        self._column_index = torch.arange(self._columns, device=device)
        self._staging = torch.zeros(3 * slots, dtype=torch.int64, pin_memory=device.type == "cuda")

    @property
    def runs_ahead(self) -> bool:
        return self._device.type == "cuda"

    @property
    def open_rows(self) -> int:
        return len(self._rows)

    @torch.inference_mode()
    def open_row(self, setup: RowSetup) -> int | None:
        """A row whose reservation is taken and whose recurrent state is that of an empty sequence."""
        reservation = reserve_row(self.slots, self.pages, setup.reserved_tokens)
        if reservation is None:
            return None
        slot, pages = reservation
        self._rows[slot] = _Row(setup, pages)
        self._initialise(slot, pages, setup.sampling)
        return slot

    @torch.inference_mode()
    def launch_prefill(self, row: int, token_ids: Sequence[int], last: bool) -> Unit:
        """Commit the next chunk; with `last`, draw the first candidate from its final column."""
        state = self._rows[row]
        assert state.length + len(token_ids) <= state.setup.prompt_tokens, "the chunk goes on behind the prompt"
        hidden, length = self._run(row, torch.tensor(tuple(token_ids), dtype=torch.int64, device=self._device))
        if not last:
            return lambda: ((),)
        assert state.length == state.setup.prompt_tokens, "the last chunk ends before the prompt does"
        slots = self._slot_index[row : row + 1]
        candidates = self._sample(hidden[:, -1], slots, length)
        self._pools.rows.lengths.index_copy_(0, slots, length)
        state.offered = 1
        self._workspace.check()
        return lambda: ((int(candidates.item()),),)

    @torch.inference_mode()
    def launch_decode(self, rows: Sequence[RowRound]) -> Unit:
        """Fold N of every row, then run one column of each in one batch of exactly these rows."""
        inputs: tuple[list[int], list[int], list[int]] = ([], [], [])
        context_tokens = 0
        for each in rows:
            state = self._rows[each.row]
            for values, value in zip(inputs, (each.row, *state.take(each.accepted)), strict=True):
                values.append(value)
            state.in_flight = True
            state.offered = self._columns
            context_tokens = max(context_tokens, state.length + self._columns)
        self._upload(inputs)
        candidates = self._round(len(rows), context_tokens)
        return lambda: tuple(tuple(row) for row in candidates.tolist())

    @torch.inference_mode()
    def launch_control(self, row: RowRound, token_ids: Sequence[int]) -> Unit:
        """See the Protocol. The tokens are run as a prompt's are, since all of them are committed."""
        state, rows = self._rows[row.row], self._pools.rows
        slots = self._slot_index[row.row : row.row + 1]
        counted, folded = (torch.full_like(slots, number) for number in state.take(row.accepted))
        anchor, lengths = self._fold(slots, counted, folded)
        if state.in_flight:
            self._model.fold(self._recurrent(slots, lengths, folded))
        forced = torch.tensor(tuple(token_ids), dtype=torch.int64, device=self._device)
        for columns in torch.split(torch.cat((anchor[0], forced[:-1])), self._prefill_chunk):
            _, length = self._run(row.row, columns)
        rows.lengths.index_copy_(0, slots, length)
        rows.candidates[row.row, 0] = forced[-1]
        state.in_flight, state.offered, state.forced = False, 1, True
        return lambda: ((),)

    @torch.inference_mode()
    def close_row(self, row: int) -> None:
        """Pages and slot are free at once: work that still reads them was launched before whatever comes next."""
        release_row(self.slots, self.pages, Reservation(row, self._rows.pop(row).pages))

    def close(self) -> None:
        """Wait for the device; its memory goes with this object."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def _run(self, row: int, token_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Run and commit the next columns of a row: token_ids [columns] -> hidden [1, columns, hidden_size], and the
        length [1] that the row has now."""
        state, columns = self._rows[row], token_ids.numel()
        start = state.length
        assert 1 <= columns <= self._prefill_chunk, f"a chunk of {columns} columns"
        assert start + columns <= state.setup.reserved_tokens, f"{start} + {columns} tokens in the row"
        state.length += columns
        slots = self._slot_index[row : row + 1]
        positions = torch.arange(start, state.length, device=self._device).view(1, columns)
        cache = PagedCache(
            self._attention.prefill,
            self._pools.planes,
            self._pools.rows.block_tables[row : row + 1],
            positions[:, 0],
            state.length,
        )
        batch = ForwardBatch(
            token_ids=token_ids.unsqueeze(0),
            positions=positions.expand(3, 1, columns),
            cache=cache,
            state=self._recurrent(slots, positions[:, 0], torch.zeros_like(slots)),
        )
        return self._model.prefill(batch), positions[:, -1] + 1

    def _initialise(self, slot: int, pages: tuple[int, ...], sampling: Sampling) -> None:
        rows = self._pools.rows
        for array in self._pools.state.values():
            array[:, slot].zero_()
        rows.penalty_counts[slot].zero_()
        rows.lengths[slot].zero_()
        rows.block_tables[slot, : len(pages)] = torch.tensor(pages, dtype=torch.int32)
        rows.sampler[slot] = torch.tensor(
            (
                sampling.temperature,
                sampling.top_p,
                sampling.min_p,
                sampling.presence_penalty,
                sampling.frequency_penalty,
            )
        )
        rows.top_k[slot] = sampling.top_k
        rows.seeds[slot] = _signed(sampling.seed)

    def _upload(self, inputs: tuple[list[int], ...]) -> None:
        """The one copy to the device. The staging buffer is free again: the last round's result has been waited for."""
        flat = torch.tensor(inputs, dtype=torch.int64).view(-1)
        staged = self._staging[: flat.numel()]
        staged.copy_(flat)
        self._pools.rows.round_inputs[: flat.numel()].copy_(staged, non_blocking=True)

    def _round(self, count: int, context_tokens: int) -> torch.Tensor:
        """The device's part of a round of `count` rows: -> candidates [rows, columns]. Reads nothing back."""
        rows = self._pools.rows
        slots, counted, folded = rows.round_inputs[: 3 * count].view(3, count).unbind(0)
        anchors, lengths = self._fold(slots, counted, folded)
        block_table = rows.block_tables.index_select(0, slots)
        cache = PagedCache(self._attention.decode, self._pools.planes, block_table, lengths, context_tokens)
        positions = lengths.unsqueeze(1) + self._column_index
        batch = ForwardBatch(
            token_ids=anchors,
            positions=positions.expand(3, count, self._columns),
            cache=cache,
            state=self._recurrent(slots, lengths, folded),
        )
        hidden = self._model.decode(batch)
        return self._sample(hidden[:, -1], slots, lengths + self._columns)

    def _fold(
        self, slots: torch.Tensor, counted: torch.Tensor, folded: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Take candidates into counters and cache, all int64 [rows]: -> anchors [rows, 1], lengths [rows]. Recurrent
        state is left to the model. A forced anchor, of which nothing is counted, is the first candidate."""
        rows = self._pools.rows
        previous = rows.candidates.index_select(0, slots)
        temperature = rows.sampler.index_select(0, slots)[:, 0]
        count_tokens(rows.penalty_counts, slots, previous, counted, temperature)
        lengths = rows.lengths.index_select(0, slots) + folded
        rows.lengths.index_copy_(0, slots, lengths)
        return previous.gather(1, (counted - 1).clamp(min=0).unsqueeze(1)), lengths

    def _sample(self, hidden: torch.Tensor, slots: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """hidden [rows, hidden_size] -> the next candidates [rows, 1], kept in the rows' buffers as well."""
        rows = self._pools.rows
        logits = self._model.logits(hidden)
        parameters = rows.sampler_rows(slots)
        tokens = sample(logits, parameters, rows.penalty_counts, slots, positions, self._token_domain)
        candidates = tokens.unsqueeze(1)
        rows.candidates.index_copy_(0, slots, candidates)
        return candidates

    def _recurrent(self, slots: torch.Tensor, lengths: torch.Tensor, accepted: torch.Tensor) -> RecurrentState:
        return RecurrentState(self._pools.state, self._pools.records, slots, lengths, accepted)


def _signed(seed: int) -> int:
    """The int64 with the bits of a 64-bit unsigned seed."""
    return seed - (1 << 64) if seed >= 1 << 63 else seed
