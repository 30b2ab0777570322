"""Drafters that are looked at while a program uses them: what `DrafterConformance` holds against a drafter.

Every call of a drafter on the device is made twice, first with junk of another kind behind the committed columns and
with all that it declared put back afterwards. Its drafts must be the same: so it neither reads what has no meaning nor
keeps anything but in the arrays and pages that travel with a sequence.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from ninfer_core.api.speculative import Draft, DraftColumns, Drafter, DraftSampling, HostDrafter
from ninfer_core.program.pools import Pools

_JUNK = 5.0
"""Finite, as what a model left of columns that were given up; larger than what it leaves."""

LAW_SLACK = 1e-3
"""By how much the probabilities of a law may miss 1 in sum: they are float32."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What was drafted for one row: which row, how many tokens stand before the first draft, the drafts that are
    meant."""

    row: int
    tokens: int
    drafts: tuple[int, ...]


@dataclass(slots=True)
class Likeliest:
    """How often the likeliest token of a law was drawn, against how often it should have been."""

    drawn: float = 0.0
    expected: float = 0.0
    variance: float = 0.0
    count: int = 0


class WatchedDrafter:
    """Implements Drafter around another one, of a program with these pools."""

    def __init__(self, drafter: Drafter, pools: Pools, law_width: int) -> None:
        self.proposals: list[Proposal] = []
        self.likeliest = Likeliest()
        self._drafter, self._law_width = drafter, law_width
        self._owned = (*pools.planes, *pools.drafter_state.values())

    def ingest(self, columns: DraftColumns) -> None:
        self._drafter.ingest(columns)

    def propose(self, columns: DraftColumns, sampling: DraftSampling) -> Draft:
        before = [tensor.clone() for tensor in self._owned]
        with_other_junk = self._drafter.propose(_scrambled(columns), sampling)
        for tensor, kept in zip(self._owned, before, strict=True):
            tensor.copy_(kept)
        draft = self._drafter.propose(columns, sampling)
        for row, slot in enumerate(columns.slots.tolist()):
            meant = _meant(draft, row)
            assert _meant(with_other_junk, row) == meant, (
                "drafts changed with what lies behind the committed columns, or with something that the drafter keeps "
                "outside its state and its pages"
            )
            self.proposals.append(Proposal(slot, int(columns.lengths[row]) + 1, meant))
            if draft.law_ids is not None and draft.probabilities is not None and sampling.temperature[row] > 0:
                self._check_law(draft.law_ids[row], draft.probabilities[row], meant)
        return draft

    def _check_law(self, ids: torch.Tensor, probabilities: torch.Tensor, drafts: Sequence[int]) -> None:
        """ids and probabilities [drafts, law_width] of one row."""
        for place, draft in enumerate(drafts):
            law = dict(zip(ids[place].tolist(), probabilities[place].tolist(), strict=True))
            assert len(law) == self._law_width, f"tokens stand more than once in the law of draft {place}"
            assert all(0 <= each <= 1 + LAW_SLACK for each in law.values()), f"the law of draft {place} is none"
            assert abs(sum(law.values()) - 1) <= LAW_SLACK, f"the law of draft {place} sums to {sum(law.values())}"
            assert law.get(draft, 0) > 0, f"draft {place} is token {draft}, which its law excludes"
            best = max(law, key=lambda token: law[token])
            tally, chance = self.likeliest, min(law[best], 1.0)
            tally.drawn += float(draft == best)
            tally.expected += chance
            tally.variance += chance * (1 - chance)
            tally.count += 1


@dataclass(slots=True)
class WatchedHostDrafter:
    """Implements HostDrafter around another one."""

    drafter: HostDrafter
    proposals: list[Proposal] = field(default_factory=list)
    told: dict[int, int] = field(default_factory=dict)

    def open(self, row: int) -> None:
        self.told[row] = 0
        self.drafter.open(row)

    def extend(self, row: int, token_ids: Sequence[int]) -> None:
        self.told[row] += len(token_ids)
        self.drafter.extend(row, token_ids)

    def propose(self, row: int, most: int) -> Sequence[int]:
        fewer = list(self.drafter.propose(row, 1))
        drafts = list(self.drafter.propose(row, most))
        assert len(fewer) <= 1 and len(drafts) <= most, f"{len(drafts)} drafts, of which {most} were asked for"
        assert list(self.drafter.propose(row, most)) == drafts, "asking again changed the drafts"
        self.proposals.append(Proposal(row, self.told[row], tuple(drafts)))
        return drafts

    def close(self, row: int) -> None:
        del self.told[row]
        self.drafter.close(row)


def _meant(draft: Draft, row: int) -> tuple[int, ...]:
    count = draft.token_ids.shape[1] if draft.counts is None else max(0, int(draft.counts[row]))
    return tuple(draft.token_ids[row].tolist()[:count])


def _scrambled(columns: DraftColumns) -> DraftColumns:
    """The same committed columns before other junk: token 0, features of one number."""
    place = torch.arange(columns.token_ids.shape[1], device=columns.counts.device)
    junk = place >= columns.counts.unsqueeze(1)
    return dataclasses.replace(
        columns,
        token_ids=columns.token_ids.masked_fill(junk, 0),
        features=columns.features.masked_fill(junk[..., None, None], _JUNK),
    )
