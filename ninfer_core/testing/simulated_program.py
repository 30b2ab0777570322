"""A program without a device: every rule of `ninfer_core.program.contract` asserted, every answer known beforehand.

The tokens of a request are a function of its sampling seed alone (`simulated_frontend.answer_token`), so a test can
compute what any history must yield. A round offers 1..`columns` of them from the position that the engine's choices of
N imply; an N that is off by one therefore shows up as wrong text, and so does a row that goes on behind less than was
assumed. With more than one column it has a drafter: of all that is offered but the last, of some that is wrong, or of
nothing.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.program.contract import MOST_IN_FLIGHT, Candidates, RowRound, RowSetup, Unit, UnitByUnit
from ninfer_core.program.pages import PagePool
from ninfer_core.program.reservations import Reservation, release_row, reserve_row
from ninfer_core.program.slots import SlotPool
from ninfer_core.testing.simulated_frontend import answer_token
from ninfer_core.testing.simulated_row import SimulatedRow


@dataclass
class SimulatedProgram(UnitByUnit):
    """Implements Program. `columns` is W, the most candidates of a round; without `goes_ahead` its drafter is on the
    host; `fail_at_unit` raises as that unit is collected; `kinds` are the units that were run: `prefill`, `decode`,
    `control`. `ahead` counts rows that took several candidates unseen (`took_many`), had no room for all of them
    (`cut`), were closed with a round in flight that had taken them so (`ended`), or went on after a round that others
    had gone ahead with (`waited`)."""

    pages: PagePool
    slots: SlotPool
    columns: int = 1
    seed: int = 0
    prefill_chunk: int = 128
    fail_at_unit: int | None = None
    units: int = 0
    closed: bool = False
    round_sizes: list[int] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    runs_ahead: bool = True
    goes_ahead: bool = True
    ahead: Counter[str] = field(default_factory=Counter)
    _rows: dict[int, SimulatedRow] = field(default_factory=dict)
    _in_flight: deque[int] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._wrong_drafts = random.Random(f"wrong drafts {self.seed}")

    @property
    def open_rows(self) -> int:
        return len(self._rows)

    def open_row(self, setup: RowSetup) -> int | None:
        assert not self.closed, "open_row after close"
        assert 1 <= setup.prompt_tokens <= setup.reserved_tokens
        reservation = reserve_row(self.slots, self.pages, setup.reserved_tokens)
        if reservation is None:
            return None
        slot, pages = reservation
        self._rows[slot] = SimulatedRow(setup, pages)
        return slot

    def launch_prefill(self, row: int, token_ids: Sequence[int], last: bool) -> Unit:
        self._unit("prefill")
        state = self._rows[row]
        assert state.rounds_waited <= 1 + state.singles_waited, f"{state.rounds_waited} rounds since row {row}'s chunk"
        assert state.singles_waited < self.slots.slots, "more units for single rows than there can be other rows"
        self._ran([row])
        assert 1 <= len(token_ids) <= self.prefill_chunk, f"a chunk of {len(token_ids)} tokens"
        assert not state.offered, f"row {row} is past its prompt"
        state.prefilled += len(token_ids)
        assert (state.prefilled == state.setup.prompt_tokens) == last, "`last` must mark the end of the prompt"
        if last:
            self._offer(state, (answer_token(state.setup.sampling.seed, 0),))
            state.in_round = False
        return self._launched([state] if last else [], (state.offered,))

    def launch_decode(self, rows: Sequence[RowRound]) -> Unit:
        self._unit("decode")
        assert rows, "an empty round"
        in_round = {each.row for each in rows}
        assert len(in_round) == len(rows), "a row twice in one round"
        ready = {row for row, state in self._rows.items() if state.offered}
        known = {row for row in ready if not self._rows[row].uncollected}
        assert in_round <= (ready if self.goes_ahead else known), "a round has ready rows only"
        for row in known - in_round:
            self._rows[row].passed_over = True
        for row in ready - known - in_round:
            self._rows[row].waits = True
        for row in in_round:
            assert self._rows[row].singles_waited <= 1, f"row {row} was ready for more than one unit of another row"
        self._ran(in_round)
        self.round_sizes.append(len(rows))
        candidates = tuple(self._advance(each) for each in rows)
        drafted = tuple(self._wrong_drafts.randint(len(row) - 1, self.columns - 1) for row in candidates)
        return self._launched([self._rows[each.row] for each in rows], candidates, drafted if self.columns > 1 else ())

    def _advance(self, each: RowRound) -> tuple[int, ...]:
        state = self._rows[each.row]
        assert not state.passed_over, f"row {each.row} was ready and left out of a round"
        self._take(state, each.accepted)
        occupied = state.setup.prompt_tokens + state.taken
        reserved = state.setup.reserved_tokens
        assert occupied < reserved, f"row {each.row} holds {occupied} of {reserved} tokens and goes on"
        state.in_round = True
        seed = state.setup.sampling.seed
        offered = self._random.randint(1, self.columns)
        positions = range(state.taken, state.taken + offered)
        self._offer(state, tuple(answer_token(seed, position) for position in positions))
        return state.offered

    def launch_control(self, row: RowRound, token_ids: Sequence[int]) -> Unit:
        self._unit("control")
        self._ran([row.row])
        state = self._rows[row.row]
        assert row.accepted is not None, "what stands before forced tokens is known"
        self._take(state, row.accepted)
        state.taken += len(token_ids) - 1
        state.offered = (token_ids[-1],)
        state.passed_over = False
        occupied, reserved = state.setup.prompt_tokens + state.taken, state.setup.reserved_tokens
        assert occupied + 2 <= reserved, f"row {row.row} holds {occupied} of {reserved} tokens and is to answer"
        return self._launched([], ((),))

    def _offer(self, state: SimulatedRow, tokens: tuple[int, ...]) -> None:
        state.offered = tokens
        state.uncollected += 1

    def _launched(self, states: Sequence[SimulatedRow], candidates: Candidates, drafted: tuple[int, ...] = ()) -> Unit:
        """Known at once, and told to whoever collects the units in their order."""
        unit = self.units
        self._in_flight.append(unit)
        assert len(self._in_flight) <= MOST_IN_FLIGHT, f"{len(self._in_flight)} units in flight"

        def collect() -> Candidates:
            assert self._in_flight.popleft() == unit, "a unit is collected before an older one"
            if unit == self.fail_at_unit:
                raise RuntimeError("the simulated device has failed")
            for state in states:
                state.uncollected -= 1
                state.assumed &= state.uncollected > 0
            return candidates

        return Unit(collect, drafted=lambda: drafted)

    def _ran(self, rows: Collection[int]) -> None:
        """A unit of these rows: the others have waited for it."""
        for row, state in self._rows.items():
            if row in rows:
                state.rounds_waited = state.singles_waited = 0
            elif self.kinds[-1] == "decode":
                state.rounds_waited += 1
            else:
                state.singles_waited += 1

    def check_accounts(self) -> None:
        """Every page has one owner: a row, or the free ones (docs/engine.md, "What always holds", 2)."""
        owned = [page for state in self._rows.values() for page in state.pages]
        assert len(set(owned)) == len(owned), "two rows own one page"
        assert len(owned) + self.pages.free_pages == self.pages.pages
        assert len(self._rows) + self.slots.free_slots == self.slots.slots

    def _take(self, state: SimulatedRow, accepted: int | None) -> None:
        if accepted is None:
            assert self.goes_ahead, "tokens that have to be known are taken unseen"
            assert state.uncollected == 1 and state.in_round, "all is taken of what is not one round that is not seen"
            room = state.setup.reserved_tokens - 1 - state.setup.prompt_tokens - state.taken
            accepted = min(len(state.offered), room)
            self.ahead["took_many"] += accepted > 1
            self.ahead["cut"] += accepted < len(state.offered)
            state.assumed = True
        else:
            assert not state.uncollected, "candidates are taken that nobody has seen"
            self.ahead["waited"] += state.waits
            state.waits = False
        assert 1 <= accepted <= len(state.offered), f"N = {accepted} of {len(state.offered)} candidates"
        state.taken += accepted

    def close_row(self, row: int) -> None:
        state = self._rows.pop(row)
        self.ahead["ended"] += state.assumed
        release_row(self.slots, self.pages, Reservation(row, state.pages))

    def close(self) -> None:
        assert not self.closed, "closed twice"
        self.closed = True

    def _unit(self, kind: str) -> None:
        assert not self.closed, "a unit after close"
        self.units += 1
        self.kinds.append(kind)


def simulated_program(plan: ExecutionPlan, *, seed: int = 0, fail_at_unit: int | None = None) -> SimulatedProgram:
    """A program with the capacities of `plan`."""
    capacities = plan.capacities
    return SimulatedProgram(
        pages=PagePool(pages=capacities.kv_pages, page_tokens=capacities.page_tokens),
        slots=SlotPool(capacities.state_slots),
        columns=1 + capacities.draft_tokens,
        seed=seed,
        prefill_chunk=capacities.prefill_chunk,
        fail_at_unit=fail_at_unit,
    )
