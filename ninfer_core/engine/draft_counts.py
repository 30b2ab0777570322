"""What became of drafts: counted for each request, for a round and for an interval (contract OBS-7, LOG-16, LOG-23)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING

from ninfer_core.api.service import Speculation
from ninfer_core.engine.session import SessionStep

if TYPE_CHECKING:
    from ninfer_core.engine.flight import Launched
    from ninfer_core.engine.records import RequestRecord
    from ninfer_core.program.contract import Candidates


@dataclass(slots=True)
class DraftCounts:
    """Of one request, or of many: a round of three rows is three. A draft counts as accepted once it is part of an
    answer: one that the target agreed with behind the end of the answer does not."""

    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    rounds_without: int = 0
    accepted_per_position: list[int] = field(default_factory=list)

    def add(self, *, drafted: int, offered: int, taken: int) -> None:
        """A row's round that checked `drafted` drafts and offered one token more than it agreed with, of which `taken`
        are in the answer."""
        assert 1 <= offered <= drafted + 1, f"{offered} candidates of {drafted} drafts"
        accepted = min(taken, offered - 1)
        self.rounds += 1
        self.drafted += drafted
        self.accepted += accepted
        self.rounds_without += drafted == 0
        self.accepted_per_position += [0] * (drafted - len(self.accepted_per_position))
        for position in range(accepted):
            self.accepted_per_position[position] += 1

    def include(self, other: DraftCounts) -> None:
        """Count all that `other` has counted."""
        self.rounds += other.rounds
        self.drafted += other.drafted
        self.accepted += other.accepted
        self.rounds_without += other.rounds_without
        self.accepted_per_position = [
            sum(both) for both in zip_longest(self.accepted_per_position, other.accepted_per_position, fillvalue=0)
        ]

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


def count_drafts(
    launched: Launched, candidates: Candidates, steps: Iterable[tuple[RequestRecord, object]]
) -> DraftCounts:
    """Adds what a collected round has drafted to the counts of its requests; -> those of all rows of the round that are
    still somebody's. Rows without a step count for nobody: their requests have ended meanwhile, or at this round."""
    taken = {record.request_id: step.accepted for record, step in steps if isinstance(step, SessionStep)}
    counts = DraftCounts()
    for record, row, drafts in zip(launched.records, candidates, launched.unit.drafted(), strict=False):
        if record.request_id in taken:
            for each in (record.drafts, counts):
                each.add(drafted=drafts, offered=len(row), taken=taken[record.request_id])
    return counts
