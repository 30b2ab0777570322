"""Runs units of work on one device: the Program that the engine drives.

Between units the device holds, for every open row: its pages and state slot, its sampler, the candidates of its last
unit. A decode round is told N of each row, or to take all that the last one offers, and begins by folding exactly that
much: so the state of a row that goes on never holds a token that was not taken. Each round takes one copy to the device
and one back.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import torch

from ninfer_core.api.kv import KVCodec
from ninfer_core.api.model import ForwardBatch, Model, RecurrentState
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.ops import accept
from ninfer_core.ops.accept import Acceptor
from ninfer_core.plan.memory import pages_for
from ninfer_core.plan.units import ceiling_divide
from ninfer_core.program.built_drafter import BuiltDrafter, drafting_of, host_drafts_of, told_numbers
from ninfer_core.program.cache import PagedCache
from ninfer_core.program.contract import Candidates, RowRound, RowSetup, Sampling, Unit, UnitByUnit
from ninfer_core.program.drafting import NothingShown, Shown
from ninfer_core.program.graphs import capture_rounds
from ninfer_core.program.host_drafts import HostDrafts, NoHostDrafts
from ninfer_core.program.pages import PagePool
from ninfer_core.program.pools import Pools
from ninfer_core.program.reservations import Reservation, release_row, reserve_row
from ninfer_core.program.rounds import ROUND_NUMBERS, DraftedRounds, LaunchedRounds, Rounds
from ninfer_core.program.rows import Row
from ninfer_core.program.slots import SlotPool
from ninfer_core.program.transfer import make_transfer
from ninfer_core.program.workspace import Workspace

INPUT_ROWS = 8
"""The inputs of a round are padded to a multiple of so many rows, so that each kind of them is aligned."""

FillPages = Callable[[Sequence[torch.Tensor], Sequence[int]], None]
"""Given the KV planes [layers, pages, kv_heads, page_tokens, elements] and numbers of pages."""


class DeviceProgram(UnitByUnit):
    """Implements `ninfer_core.program.contract.Program` over a family's model. A row is named by its state slot."""

    def __init__(
        self,
        plan: ExecutionPlan,
        model: Model,
        codec: KVCodec,
        pools: Pools,
        device: torch.device,
        built: BuiltDrafter | None = None,
        acceptor: Acceptor | None = None,
    ) -> None:
        """`built` is the drafter of a plan that has one; `acceptor` None is the one that keeps the model's law."""
        assert (plan.drafter is None) == (built is None), "the plan and what was built of it"
        capacities = plan.capacities
        self._model = model
        self._pools = pools
        self._device = device
        self._columns = 1 + capacities.draft_tokens
        self._prefill_chunk = capacities.prefill_chunk
        self._most_tokens = capacities.max_context + capacities.draft_tokens
        self._most_rows = capacities.max_concurrency
        self.pages = PagePool(pages=capacities.kv_pages, page_tokens=capacities.page_tokens)
        self.slots = SlotPool(capacities.state_slots)
        self._rows: dict[int, Row] = {}
        padded_rows = ceiling_divide(self._most_rows, INPUT_ROWS) * INPUT_ROWS
        numbers = ROUND_NUMBERS + told_numbers(plan)
        self._transfer = make_transfer(device, padded_rows, numbers, self._most_rows * (2 + self._columns))
        self._launched = LaunchedRounds(plan, model, codec, pools, self._transfer, device)
        self._rounds: Rounds = self._launched
        self._shown: Shown = NothingShown()
        self._host: HostDrafts = NoHostDrafts()
        if built is not None:
            told = self._transfer.round_inputs[ROUND_NUMBERS:]
            drafting = drafting_of(plan, built, pools, self._launched.attention, told)
            acceptor = accept.select(device, plan.kernels) if acceptor is None else acceptor
            self._rounds = DraftedRounds(self._launched, model, pools, self._transfer, drafting, acceptor)
            self._shown, self._host = drafting, host_drafts_of(plan, built)
        self._workspace: Workspace | None = None
        # Two to a row, of which the first is used: a view of one element is aligned wherever it begins.
        self._slot_index = torch.arange(capacities.state_slots, device=device).repeat_interleave(2).view(-1, 2)

    @property
    def runs_ahead(self) -> bool:
        return self._device.type == "cuda"

    @property
    def goes_ahead(self) -> bool:
        return self.runs_ahead and isinstance(self._host, NoHostDrafts)

    @property
    def open_rows(self) -> int:
        return len(self._rows)

    @torch.inference_mode()
    def capture(self) -> None:
        """Rounds of every size are one launch each from here on. All of them have been run before."""
        self._rounds = capture_rounds(self._rounds, self._most_rows, self._most_tokens)

    def watch(self, workspace: Workspace) -> None:
        """Have what temporaries take checked from here on."""
        self._workspace = workspace

    @torch.inference_mode()
    def open_row(self, setup: RowSetup) -> int | None:
        """A row whose reservation is taken and whose recurrent state is that of an empty sequence."""
        reservation = reserve_row(self.slots, self.pages, setup.reserved_tokens)
        if reservation is None:
            return None
        slot, pages = reservation
        self._rows[slot] = Row(setup, pages)
        self._initialise(slot, pages, setup.sampling)
        self._host.open(slot)
        return slot

    @torch.inference_mode()
    def launch_prefill(self, row: int, token_ids: Sequence[int], last: bool) -> Unit:
        """Commit the next chunk; with `last`, draw the first candidate from its final column."""
        state = self._rows[row]
        assert state.length + len(token_ids) <= state.setup.prompt_tokens, "the chunk goes on behind the prompt"
        hidden, length = self._run(row, self._transfer.token_ids(token_ids))
        self._host.extend(row, token_ids)
        if not last:
            return self._transfer.done()
        assert state.length == state.setup.prompt_tokens, "the last chunk ends before the prompt does"
        slots = self._slots(row)
        candidates = self._launched.choose(hidden[:, -1], slots, length.unsqueeze(1))
        self._pools.rows.lengths.index_copy_(0, slots, length)
        state.launched(1)
        if self._workspace is not None:
            self._workspace.check()
        return self._noted(self._transfer.send(candidates), [state])

    @torch.inference_mode()
    def launch_decode(self, rows: Sequence[RowRound]) -> Unit:
        """Fold N of every row, then run the columns of each in one batch of exactly these rows."""
        context_tokens = 0
        inputs: list[tuple[int, ...]] = []
        states = [self._rows[each.row] for each in rows]
        for each, state in zip(rows, states, strict=True):
            counted, folded = state.take(each.accepted)
            self._host.extend(each.row, state.candidates[:counted])
            inputs.append((each.row, counted, folded, *self._host.propose(each.row)))
            state.in_flight = True
            state.launched(self._columns)
            context_tokens = max(context_tokens, state.length + self._columns)
        self._transfer.tell_round(inputs)
        return self._noted(self._rounds.send(self._rounds.run(len(rows), context_tokens)), states)

    @torch.inference_mode()
    def launch_control(self, row: RowRound, token_ids: Sequence[int]) -> Unit:
        """See the Protocol. The tokens are run as a prompt's are, since all of them are committed."""
        state, buffers = self._rows[row.row], self._pools.rows
        assert row.accepted is not None, "what stands before forced tokens is known"
        slots = self._slots(row.row)
        taken = state.take(row.accepted)
        self._host.extend(row.row, [*state.candidates[: taken[0]], *token_ids])
        counted, folded = (torch.full_like(slots, number) for number in taken)
        begun = self._launched.start(torch.stack((slots, counted, folded)), self._launched.slot_state, self._columns)
        if state.in_flight:
            self._model.fold(self._recurrent(slots, begun.lengths, folded))
            self._shown.settle(row.row, row.accepted, state.length)
        forced = self._transfer.token_ids(token_ids)
        for columns in torch.split(torch.cat((begun.anchors[0], forced[:-1])), self._prefill_chunk):
            _, length = self._run(row.row, columns)
        buffers.lengths.index_copy_(0, slots, length)
        buffers.candidates[row.row, :1].copy_(forced[-1:])
        state.in_flight, state.offered, state.forced = False, 1, True
        return self._transfer.done()

    @torch.inference_mode()
    def assume_context(self, row: int, tokens: int, fill: FillPages) -> None:
        """For benchmarks alone: the new `row` stands behind `tokens` tokens that were never run, as if all that they
        left in the recurrent layers were zeros; `fill` writes their keys and values into the given pages."""
        state = self._rows[row]
        assert state.length == 0 and tokens < state.setup.prompt_tokens, "only a new row, and not all of its prompt"
        fill(self._pools.planes, state.pages[: pages_for(tokens)])
        for ring in self._pools.records.values():
            ring[:, row].zero_()
        state.length = tokens

    @torch.inference_mode()
    def prompt_logits(self, row: int, token_ids: Sequence[int]) -> torch.Tensor:
        """For the checks of a start: the new `row` runs these tokens -> logits [vocabulary_rows] of what follows."""
        hidden, _ = self._run(row, self._transfer.token_ids(token_ids))
        return self._model.logits(hidden[:, -1])[0]

    @torch.inference_mode()
    def close_row(self, row: int) -> None:
        """Pages and slot are free at once: work that still reads them was launched before whatever comes next."""
        self._host.close(row)
        release_row(self.slots, self.pages, Reservation(row, self._rows.pop(row).pages))

    def close(self) -> None:
        """Wait for the device; its memory goes with this object."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def _slots(self, row: int) -> torch.Tensor:
        """The one slot of the row, int64 [1]."""
        return self._slot_index[row, :1]

    def _run(self, row: int, token_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Run and commit the next columns of a row: token_ids [columns] -> hidden [1, columns, hidden_size], and the
        length [1] that the row has now."""
        state, columns = self._rows[row], token_ids.numel()
        start = state.length
        assert 1 <= columns <= self._prefill_chunk, f"a chunk of {columns} columns"
        assert start + columns <= state.setup.reserved_tokens, f"{start} + {columns} tokens in the row"
        state.length += columns
        slots = self._slots(row)
        positions = torch.arange(start, state.length, device=self._device).view(1, columns)
        cache = PagedCache(
            self._launched.attention.prefill,
            self._pools.planes,
            self._pools.rows.block_tables[row : row + 1],
            positions[:, 0],
            state.length,
        )
        features = self._shown.features(1, 1 + columns)
        batch = ForwardBatch(
            token_ids=token_ids.unsqueeze(0),
            positions=positions.expand(3, 1, columns),
            cache=cache,
            state=self._recurrent(slots, positions[:, 0], torch.zeros_like(slots)),
            features=None if features is None else features[:, 1:],
        )
        hidden = self._model.prefill(batch)
        self._shown.ingest(row, start, token_ids, features)
        return hidden, positions[:, -1] + 1

    def _noted(self, unit: Unit, states: Sequence[Row]) -> Unit:
        """`unit`, noting for each row what it has yielded."""

        def collect() -> Candidates:
            found = unit.collect()
            for state, candidates in zip(states, found, strict=True):
                state.collected(candidates)
            return found

        return dataclasses.replace(unit, collect=collect)

    def _initialise(self, slot: int, pages: tuple[int, ...], sampling: Sampling) -> None:
        rows, upload = self._pools.rows, self._transfer.upload
        for array in self._pools.state.values():
            array[:, slot].zero_()
        rows.penalty_counts[slot].zero_()
        rows.lengths[slot].zero_()
        rows.offered[slot].fill_(1)  # of a prompt; a round writes its own
        for array in self._pools.drafter_state.values():
            array[:, slot].zero_()
        if self._columns > 1:
            rows.block_tables[slot].fill_(self.pages.pages)  # the spare one, behind all that are reserved
        upload(torch.tensor(pages, dtype=torch.int32), rows.block_tables[slot, : len(pages)])
        numbers = (
            sampling.temperature,
            sampling.top_p,
            sampling.min_p,
            sampling.presence_penalty,
            sampling.frequency_penalty,
        )
        upload(torch.tensor(numbers), rows.sampler[slot])
        upload(torch.tensor([sampling.top_k]), rows.top_k[slot : slot + 1])
        upload(torch.tensor([_signed(sampling.seed)]), rows.seeds[slot : slot + 1])

    def _recurrent(self, slots: torch.Tensor, lengths: torch.Tensor, accepted: torch.Tensor) -> RecurrentState:
        return RecurrentState(self._pools.state, self._pools.records, slots, lengths, accepted)


def _signed(seed: int) -> int:
    """The int64 with the bits of a 64-bit unsigned seed."""
    return seed - (1 << 64) if seed >= 1 << 63 else seed
