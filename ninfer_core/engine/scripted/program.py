"""A program whose rows say what the script says. Pages and slots are counted as on a device; nothing is computed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ninfer_core.api.frontend import Frontend
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.api.request import Channel
from ninfer_core.engine.scripted.answers import AnswerWriter, answer_of_seed
from ninfer_core.engine.scripted.frontend import ScriptedFrontend, ScriptVocabulary
from ninfer_core.engine.scripted.script import Script, ScriptedAnswer, pieces_of
from ninfer_core.program.contract import Candidates, RowRound, RowSetup, Unit, UnitByUnit
from ninfer_core.program.pages import PagePool
from ninfer_core.program.reservations import Reservation, release_row, reserve_row
from ninfer_core.program.slots import SlotPool

_SILENT_TOKENS_PER_ROUND = 256
"""An answer that goes on to its limit without text shall not take long about it."""


class ScriptedFailure(Exception):
    """The engine's failure that an answer asked for."""


@dataclass(frozen=True, slots=True)
class _Told:
    """An answer as token ids, for each channel that a prompt may end in."""

    answer: ScriptedAnswer
    token_ids: dict[Channel, tuple[int, ...]]


@dataclass(slots=True)
class _Row:
    """`taken` tokens of the answer have been folded, `offered` more were the row's last candidates."""

    told: _Told
    token_ids: tuple[int, ...]
    pages: tuple[int, ...]
    taken: int = 0
    offered: int = 0


class ScriptedProgram(UnitByUnit):
    """Implements Program. The sampling seed of a row names its answer; see `answers.answer_seed`.

    Units run one after the other, as on a device: each begins at its launch or when the one before it is done. A round
    lasts as long as the slowest of its rows asks for; an answer fails as it is collected.
    """

    runs_ahead = True
    goes_ahead = False

    def __init__(
        self,
        plan: ExecutionPlan,
        told: Sequence[_Told],
        vocabulary: ScriptVocabulary,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        capacities = plan.capacities
        self._pages = PagePool(pages=capacities.kv_pages, page_tokens=capacities.page_tokens)
        self._slots = SlotPool(capacities.state_slots)
        self._told = told
        self._vocabulary = vocabulary
        self._sleep = sleep
        self._rows: dict[int, _Row] = {}
        self._done_at = 0.0

    @property
    def open_rows(self) -> int:
        return len(self._rows)

    def open_row(self, setup: RowSetup) -> int | None:
        number, channel = answer_of_seed(setup.sampling.seed)
        reservation = reserve_row(self._slots, self._pages, setup.reserved_tokens)
        if reservation is None:
            return None
        slot, pages = reservation
        told = self._told[number]
        self._rows[slot] = _Row(told, told.token_ids[channel], pages)
        return slot

    def launch_prefill(self, row: int, token_ids: Sequence[int], last: bool) -> Unit:
        state, begin = self._rows[row], time.monotonic()

        def collect() -> Candidates:
            self._wait(begin, state.told.answer.prompt_delay_ms)
            return (self._offer(state, 1) if last else (),)

        return Unit(collect)

    def launch_decode(self, rows: Sequence[RowRound]) -> Unit:
        states, begin = [self._rows[each.row] for each in rows], time.monotonic()
        for each, state in zip(rows, states, strict=True):
            assert each.accepted is not None, "it does not go ahead"
            state.taken += min(each.accepted, state.offered)

        def collect() -> Candidates:
            candidates = tuple(self._offer(state, state.told.answer.tokens_per_round) for state in states)
            going = [state for state in states if state.taken < len(state.token_ids)]
            self._wait(begin, max((state.told.answer.delay_ms * state.offered for state in going), default=0.0))
            return candidates

        return Unit(collect)

    def launch_control(self, row: RowRound, token_ids: Sequence[int]) -> Unit:
        """Thinking has been closed for the answer: it goes on with what it says without thinking."""
        state = self._rows[row.row]
        state.token_ids = state.told.token_ids["content"]
        state.taken = state.offered = 0
        return Unit(lambda: ((),))

    def close_row(self, row: int) -> None:
        release_row(self._slots, self._pages, Reservation(row, self._rows.pop(row).pages))

    def close(self) -> None:
        """Nothing is held on a device."""

    def _offer(self, state: _Row, count: int) -> tuple[int, ...]:
        """The next candidates of the row: at most `count` of its answer, then how it ends."""
        offered = state.token_ids[state.taken : state.taken + count]
        answer = state.told.answer
        if not offered:
            if answer.fail:
                raise ScriptedFailure("the script asks for a failure of the engine here")
            silent = (self._vocabulary.silent_id,) * _SILENT_TOKENS_PER_ROUND
            offered = silent if answer.finish == "length" else (self._vocabulary.stop_id,)
        state.offered = len(offered)
        return offered

    def _wait(self, launched_at: float, milliseconds: float) -> None:
        """Until the unit is done that was launched then and takes so long. Units are collected in their order."""
        self._done_at = max(launched_at, self._done_at) + milliseconds / 1000
        left = self._done_at - time.monotonic()
        if left > 0:
            self._sleep(left)


def scripted_engine(
    plan: ExecutionPlan, frontend: Frontend, script: Script
) -> tuple[ScriptedFrontend, ScriptedProgram]:
    """Both halves of an engine that follows `script`. Raises StartFailed for what the template cannot show."""
    vocabulary = ScriptVocabulary(frontend.token_domain)
    writer = AnswerWriter(frontend)

    def token_ids(answer: ScriptedAnswer, channel: Channel) -> tuple[int, ...]:
        text = writer.text(answer, channel) if answer.structured or answer.raw is not None else ""
        return tuple(vocabulary.add(piece) for piece in pieces_of(answer, text))

    told = [
        _Told(answer, {"reasoning": token_ids(answer, "reasoning"), "content": token_ids(answer, "content")})
        for answer in script.answers
    ]
    return ScriptedFrontend(frontend, vocabulary), ScriptedProgram(plan, told, vocabulary)
