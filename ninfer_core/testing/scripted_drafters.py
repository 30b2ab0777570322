"""Drafters that no model is behind, good ones and bad ones: whatever they propose, text stays what it would be without.

Those here are handed to a program through the backend `scripted`, whose hooks find needs and drafter in the config of
the header that they are given (`scripted_registry`, `with_needs`, `with_drafter`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import torch

from ninfer_core.api.artifact import ArtifactHeader
from ninfer_core.api.speculative import Draft, DraftColumns, DrafterNeeds, DraftSampling
from ninfer_core.ops.sample import Purpose, uniform
from ninfer_core.plugins import PluginRegistry
from ninfer_core.testing.plugins import write_plugin_package

BACKEND = "scripted"
_SOURCE = """
import msgspec
from ninfer_core.api import DrafterNeeds, DraftTokens, hookimpl

@hookimpl
def ninfer_spec_draft_tokens(header):
    return DraftTokens(most=15, default=3)

@hookimpl
def ninfer_spec_needs(header, geometry, shape):
    return msgspec.convert(header.config["drafter_needs"], DrafterNeeds)

@hookimpl
def ninfer_spec_build(header, shape, model, weights, device):
    return header.config["drafter"]
"""


def scripted_registry(folder: Path) -> PluginRegistry:
    """What is installed, and the backend `scripted`, which is written into `folder`; the caller has that in its path
    by then (pytest: `monkeypatch.syspath_prepend`)."""
    write_plugin_package(folder, "ninfer-scripted-spec", {f"spec:{BACKEND}": _SOURCE})
    return PluginRegistry.discover(environment={})


def with_needs(header: ArtifactHeader, needs: DrafterNeeds) -> ArtifactHeader:
    """A header whose plans have those needs."""
    return msgspec.structs.replace(header, config={**header.config, "drafter_needs": msgspec.to_builtins(needs)})


def with_drafter(header: ArtifactHeader, drafter: object) -> ArtifactHeader:
    """A header that `build_program` finds the drafter in."""
    return msgspec.structs.replace(header, config={**header.config, "drafter": drafter})


class Adversary:
    """Takes nothing in, and proposes the same for the same columns. `texts` [slots, tokens] int64 is what its rows are
    going to be, as far as a test knows."""

    def __init__(self, draft_tokens: int, token_domain: int, texts: torch.Tensor) -> None:
        self.draft_tokens = draft_tokens
        self.token_domain = token_domain
        self.texts = texts

    def ingest(self, columns: DraftColumns) -> None:
        return

    def propose(self, columns: DraftColumns, sampling: DraftSampling) -> Draft:
        raise NotImplementedError

    def places(self, columns: DraftColumns) -> torch.Tensor:
        """Positions of the tokens to draft, [rows, drafts]."""
        ahead = torch.arange(1, 1 + self.draft_tokens, device=columns.lengths.device)
        return columns.lengths.unsqueeze(1) + ahead

    def known(self, columns: DraftColumns) -> torch.Tensor:
        """The drafts that will all be kept; beyond what is known, token 0."""
        places, most = self.places(columns), self.texts.shape[1]
        text = self.texts.index_select(0, columns.slots).gather(1, places.clamp(max=most - 1))
        return torch.where(places < most, text, 0)

    def noise(self, columns: DraftColumns, sampling: DraftSampling) -> torch.Tensor:
        """float64 [rows, drafts] in [0, 1)."""
        places = self.places(columns)
        return uniform(sampling.seeds.unsqueeze(1).expand_as(places), places, Purpose.DRAFT)


class AlwaysRight(Adversary):
    def propose(self, columns: DraftColumns, sampling: DraftSampling) -> Draft:
        return Draft(self.known(columns))


class AlwaysWrong(Adversary):
    def propose(self, columns: DraftColumns, sampling: DraftSampling) -> Draft:
        return Draft((self.known(columns) + 1) % self.token_domain)


class Silent(Adversary):
    """Never means any of its drafts."""

    def propose(self, columns: DraftColumns, sampling: DraftSampling) -> Draft:
        return Draft(self.known(columns), torch.zeros_like(columns.slots))


class Foreign(Adversary):
    """Right as far as it goes, and then tokens that are none."""

    def propose(self, columns: DraftColumns, sampling: DraftSampling) -> Draft:
        strange = torch.tensor([-1, self.token_domain, 2**62, -(2**62)], device=columns.slots.device)
        place = self.places(columns)
        return Draft(torch.where(place % 3 == 0, strange[place % 4], self.known(columns)))


class Random(Adversary):
    def propose(self, columns: DraftColumns, sampling: DraftSampling) -> Draft:
        return Draft((self.noise(columns, sampling) * self.token_domain).long())


class Fickle(Adversary):
    """Mostly right, of another length in every row and round, counts beyond all bounds among them."""

    def propose(self, columns: DraftColumns, sampling: DraftSampling) -> Draft:
        right = self.known(columns)
        drafts = torch.where(self.noise(columns, sampling) < 0.8, right, (right + 1) % self.token_domain)
        return Draft(drafts, (columns.lengths * 5 + columns.slots * 3) % (self.draft_tokens + 4) - 2)


class Drawn(Adversary):
    """Draws from laws over the right token and others, which it tells; in greedy rows it takes the likeliest."""

    law_width = 4

    def propose(self, columns: DraftColumns, sampling: DraftSampling) -> Draft:
        noise = self.noise(columns, sampling)
        apart = torch.arange(self.law_width, device=noise.device)
        law_ids = (self.known(columns).unsqueeze(2) + apart) % self.token_domain
        weights = (1 + noise.unsqueeze(2) * 7 * (apart + 1)) % 1 + 0.05
        law = weights / weights.sum(-1, keepdim=True)
        drawn = (law.cumsum(-1) <= noise.unsqueeze(2)).sum(-1).clamp(max=self.law_width - 1)
        chosen = torch.where(sampling.temperature.unsqueeze(1) > 0, drawn, law.argmax(-1))
        token_ids = law_ids.gather(2, chosen.unsqueeze(2)).squeeze(2)
        return Draft(token_ids, None, law_ids, law.float())


class HostAdversary:
    """On the host: keeps what it is told of every row, and hands out `answers` of the row from there on."""

    def __init__(self, answers: Sequence[Sequence[object]] = ()) -> None:
        self.answers = answers
        self.told: dict[int, list[int]] = {}

    def open(self, row: int) -> None:
        assert row not in self.told, "a row is opened once"
        self.told[row] = []

    def extend(self, row: int, token_ids: Sequence[int]) -> None:
        assert len(token_ids), "there is something to tell"
        self.told[row].extend(token_ids)

    def propose(self, row: int, most: int) -> Sequence[int]:
        known = len(self.told[row])
        return self.answers[row][known : known + most] if row < len(self.answers) else ()  # type: ignore[return-value]

    def close(self, row: int) -> None:
        del self.told[row]


class Remembering(HostAdversary):
    """Proposes how a sequence that was closed went on from where a row is, every seventh token of it wrong. `proposed`
    counts those tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.sequences: list[list[int]] = []
        self.proposed = 0

    def propose(self, row: int, most: int) -> Sequence[int]:
        told = self.told[row]
        known = len(told)
        for sequence in reversed(self.sequences):
            if len(sequence) > known and sequence[:known] == told:
                ahead = sequence[known : known + most]
                self.proposed += len(ahead)
                return [token ^ 1 if (known + place) % 7 == 0 else token for place, token in enumerate(ahead)]
        return ()

    def close(self, row: int) -> None:
        self.sequences.append(self.told.pop(row))
