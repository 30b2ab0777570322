"""What became of drafts: counted for each request and for the whole of a round (contract OBS-7, LOG-16, LOG-23)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ninfer_core.api.service import Speculation
from ninfer_core.engine.session import SessionStep

if TYPE_CHECKING:
    from ninfer_core.engine.flight import Launched
    from ninfer_core.engine.records import RequestRecord
    from ninfer_core.program.contract import Candidates


@dataclass(slots=True)
class DraftCounts:
    """Of one request. A draft counts as accepted once it is part of the answer: one that the target agreed with behind
    the end of the answer does not."""

    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    rounds_without: int = 0
    accepted_per_position: list[int] = field(default_factory=list)

    def add(self, *, drafted: int, offered: int, taken: int) -> int:
        """A round that checked `drafted` drafts and offered one token more than it agreed with, of which `taken` are
        in the answer; -> the drafts among these."""
        assert 1 <= offered <= drafted + 1, f"{offered} candidates of {drafted} drafts"
        accepted = min(taken, offered - 1)
        self.rounds += 1
        self.drafted += drafted
        self.accepted += accepted
        self.rounds_without += drafted == 0
        self.accepted_per_position += [0] * (drafted - len(self.accepted_per_position))
        for position in range(accepted):
            self.accepted_per_position[position] += 1
        return accepted

    def total(self) -> Speculation | None:
        """None where no round had a drafter."""
        if not self.rounds:
            return None
        return Speculation(
            rounds=self.rounds,
            drafted_tokens=self.drafted,
            accepted_tokens=self.accepted,
            fallback_steps=self.rounds_without,
            accepted_per_position=tuple(self.accepted_per_position),
        )


@dataclass(frozen=True, slots=True)
class RoundDrafts:
    """Of all rows of a round that are still somebody's."""

    drafted: int = 0
    accepted: int = 0


def count_drafts(
    launched: Launched, candidates: Candidates, steps: Iterable[tuple[RequestRecord, object]]
) -> RoundDrafts:
    """Adds what a collected round has drafted to the counts of its requests. Rows without a step count for nobody:
    their requests have ended meanwhile, or at this round."""
    taken = {record.request_id: step.accepted for record, step in steps if isinstance(step, SessionStep)}
    drafted = accepted = 0
    for record, row, drafts in zip(launched.records, candidates, launched.unit.drafted(), strict=False):
        if record.request_id in taken:
            drafted += drafts
            accepted += record.drafts.add(drafted=drafts, offered=len(row), taken=taken[record.request_id])
    return RoundDrafts(drafted, accepted)
