"""The device side as the engine sees it. No torch here: a simulated program behind the Protocol tests the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

MOST_IN_FLIGHT = 2
"""Units that may have been launched and not collected: one that runs, and one behind it so that the device never waits
for the next launch. More would only make cancels and new requests wait."""

OnPhase = Callable[[str, float], None]
"""Called with the name and the seconds of each phase of a start."""


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """Sampler settings with nothing left open. `temperature` 0 is exact argmax (docs/engine.md, "Choice of a token").

    `top_k` is 1..20; 0 was resolved to the cap of 20. `seed` is 64 bit; streams are keyed by (seed, position, purpose).
    """

    temperature: float
    top_p: float
    top_k: int
    min_p: float
    presence_penalty: float
    frequency_penalty: float
    seed: int


@dataclass(frozen=True, slots=True)
class RowSetup:
    """A request that wants a row. `reserved_tokens` is the whole prompt plus the effective output: what it can
    ever occupy (contract EXEC-8)."""

    prompt_tokens: int
    reserved_tokens: int
    sampling: Sampling


@dataclass(frozen=True, slots=True)
class RowRound:
    """One row of a decode round. `accepted` is N: how many candidates of the row's last unit were taken, the last
    of which is the anchor of this round. 1 <= N <= the number of those candidates. None says that nobody has seen them
    yet, and that all of them are taken, however many they are; see `Program`."""

    row: int
    accepted: int | None


Candidates = tuple[tuple[int, ...], ...]
"""What a unit yielded, row by row; nothing for a row that has only to go on."""


def _cannot_tell() -> bool:
    return False


def _no_drafts() -> tuple[int, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class Unit:
    """A launched unit: called once to collect it, which waits until the device is done with it. `is_done` is whether
    that is so already, where it can be told; it waits for nothing. `drafted`, asked once it is collected, is how many
    drafts of each row it checked, row by row; nothing where there is no drafter. Of the candidates of such a row all
    but the last are drafts of it."""

    collect: Callable[[], Candidates]
    is_done: Callable[[], bool] = _cannot_tell
    drafted: Callable[[], tuple[int, ...]] = _no_drafts

    def __call__(self) -> Candidates:
        return self.collect()


class Program(Protocol):
    """Owns rows, pages, state slots and everything on the device. Called from one thread only.

    A row lives from `open_row` to `close_row`. Its prompt is prefilled in one or more chunks; the last chunk yields
    one candidate token. Each decode round folds N input columns of the row's last round, then yields 1..W
    candidates, of which the next call says how many were taken. Closing a row drops whatever was not folded.

    Units are launched and run in that order; launching does not wait for the device. They are collected in the same
    order, and at most MOST_IN_FLIGHT of them stand uncollected. A row may be closed while its units are in flight: what
    they yield for it means nothing then.

    A unit that yields candidates is collected before the next unit of any of its rows, with one exception: where a
    program `goes_ahead`, rows of a round may be in the next one before the first has been collected. What they took is
    None then: all that the first offers each of them, or as much of it as the row's reservation has room for. Of such
    a row the next N is about the second round. A row for which all that was offered is not what was taken, because its
    sequence ends within, goes on in no unit: it is closed before its next one, and what the second round yields for it
    means nothing. So a row is not gone ahead with where its sequence may have to go on behind a part of what is
    offered, as it does when `launch_control` puts tokens there.
    """

    @property
    def runs_ahead(self) -> bool:
        """Whether launching returns before the work is done."""
        ...

    @property
    def goes_ahead(self) -> bool:
        """Whether a round may be launched right behind one that has not been collected, of the same rows. Not where
        the host has to know the tokens of a round before it can say what the next one consists of."""
        ...

    def open_row(self, setup: RowSetup) -> int | None:
        """A row with its whole reservation, or None when it does not fit now."""
        ...

    def launch_prefill(self, row: int, token_ids: Sequence[int], last: bool) -> Unit:
        """The next `token_ids` of the row's prompt; yields the candidate token of its one row when `last`."""
        ...

    def launch_decode(self, rows: Sequence[RowRound]) -> Unit:
        """One round over all these rows; yields candidates for each, in the same order."""
        ...

    def launch_control(self, row: RowRound, token_ids: Sequence[int]) -> Unit:
        """Fold N of this row and put `token_ids`, at least one, behind them (docs/engine.md, "Thinking budget").

        The anchor and all of `token_ids` but the last are committed; the last is the row's anchor then, as if it were
        the one candidate of a unit: its next round is told that 1 was taken. Nothing is sampled or yielded, and the
        penalty counters do not count `token_ids`, which the model did not choose.
        """
        ...

    def close_row(self, row: int) -> None:
        """Give back the row, its pages and its state slot, in whatever state it is."""
        ...

    def close(self) -> None:
        """Free the device, once it is done with what was launched."""
        ...


class UnitByUnit:
    """For those who want no unit in flight: launches one and collects it."""

    def prefill(self: Program, row: int, token_ids: Sequence[int], last: bool) -> int | None:
        """The candidate token when `last`, else None."""
        ((*candidates,),) = self.launch_prefill(row, token_ids, last)()
        return candidates[0] if candidates else None

    def decode(self: Program, rows: Sequence[RowRound]) -> list[tuple[int, ...]]:
        """Candidates for each row, in the same order."""
        return list(self.launch_decode(rows)())

    def control(self: Program, row: RowRound, token_ids: Sequence[int]) -> None:
        self.launch_control(row, token_ids)()
