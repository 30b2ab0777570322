"""Acceptance gives tokens the law of the target, whatever is drafted, and the very tokens of `sample` where drafts are
certain."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
import torch

from ninfer_core.ops.accept import Drafts, accept
from ninfer_core.ops.sample import ChosenRows, Purpose, SamplerTable, TokenLaw, draw, sample, token_law, uniform

VOCABULARY, COLUMNS, SEQUENCES, FIRST = 7, 4, 20_000, 100


@dataclass(frozen=True, slots=True)
class Target:
    """A target whose logits depend on the token before, and one row of settings for all sequences, each of which has a
    seed of its own."""

    logits: torch.Tensor  # [token before, token]
    temperature: float
    top_p: float = 1.0
    min_p: float = 0.0
    presence: float = 0.0
    frequency: float = 0.0

    def table(self, sequences: int) -> SamplerTable:
        numbers = torch.tensor([self.temperature, self.top_p, self.min_p, self.presence, self.frequency])
        top_k = torch.full((sequences,), 20)
        return SamplerTable(numbers.expand(sequences, 5), top_k, torch.arange(sequences) * 7919 + 5)

    def law(self, before: int, counts: torch.Tensor) -> torch.Tensor:
        """float64 [VOCABULARY]: of the next token."""
        law = token_law(self.logits[before : before + 1], self.table(1).rows(torch.zeros(1).long()), counts[None])
        weights = torch.zeros(VOCABULARY, dtype=torch.float64).index_add(0, law.token_ids[0], law.weights[0])
        return weights / weights.sum()


class Drawn:
    """Drafts from a chain of laws over four tokens, at the temperature `heat`, said to be of `told`."""

    def __init__(self, logits: torch.Tensor, heat: float, told: float) -> None:
        self._logits, self._heat, self._told = logits, heat, told

    def propose(self, anchors: torch.Tensor, seeds: torch.Tensor, positions: torch.Tensor) -> Drafts:
        before, tokens, all_ids, laws = anchors, [], [], []
        for step in range(COLUMNS - 1):
            values, ids = self._logits[before].topk(4, dim=-1)
            weights = torch.softmax(values.double() / self._heat, -1)
            before = draw(TokenLaw(ids, weights), uniform(seeds, positions[:, step], Purpose.DRAFT))
            tokens.append(before)
            all_ids.append(ids)
            laws.append(torch.softmax(values / self._told, -1))
        counts = torch.full_like(anchors, COLUMNS - 1)
        return Drafts(torch.stack(tokens, 1), counts, torch.stack(all_ids, 1), torch.stack(laws, 1))


class Certain:
    """The most likely tokens by the drafter's own logits; with `told`, as laws of one token. `ragged` sequences have
    fewer drafts."""

    def __init__(self, logits: torch.Tensor, *, told: bool = False, ragged: bool = False) -> None:
        self._logits, self._told, self._ragged = logits, told, ragged

    def propose(self, anchors: torch.Tensor, seeds: torch.Tensor, positions: torch.Tensor) -> Drafts:
        before, tokens = anchors, []
        for _ in range(COLUMNS - 1):
            before = self._logits[before].argmax(-1)
            tokens.append(before)
        token_ids = torch.stack(tokens, 1)
        counts = seeds % COLUMNS if self._ragged else torch.full_like(anchors, COLUMNS - 1)
        if not self._told:
            return Drafts(token_ids, counts)
        return Drafts(token_ids, counts, token_ids.unsqueeze(2), torch.ones(*token_ids.shape, 1))


class Nothing(Drawn):
    """Drawn drafts whose laws were lost."""

    def propose(self, anchors: torch.Tensor, seeds: torch.Tensor, positions: torch.Tensor) -> Drafts:
        drafts = super().propose(anchors, seeds, positions)
        assert drafts.probabilities is not None
        return replace(drafts, probabilities=torch.full_like(drafts.probabilities, float("nan")))


def generate(target: Target, drafter: Drawn | Certain, wanted: int, rounds_of_sample: bool = False) -> torch.Tensor:
    """The first `wanted` tokens of every sequence, [SEQUENCES, wanted], each counted for the next as it comes."""
    table = target.table(SEQUENCES)
    counts = torch.zeros(SEQUENCES, VOCABULARY, dtype=torch.int32)
    text = torch.zeros(SEQUENCES, wanted + COLUMNS, dtype=torch.int64)
    length = torch.zeros(SEQUENCES, dtype=torch.int64)
    while (slots := (length < wanted).nonzero().squeeze(1)).numel():
        anchors = torch.where(length[slots] > 0, text[slots, (length[slots] - 1).clamp(min=0)], 0)
        positions = FIRST + length[slots].unsqueeze(1) + torch.arange(COLUMNS)
        if rounds_of_sample:
            columns = 1
            logits, settings = target.logits[anchors], table.rows(slots)
            tokens = sample(logits, settings, counts, slots, positions[:, 0], VOCABULARY).unsqueeze(1)
            offered = torch.ones_like(slots)
        else:
            columns = COLUMNS
            drafts = drafter.propose(anchors, table.seeds[slots], positions)
            logits = target.logits[torch.cat((anchors.unsqueeze(1), drafts.token_ids), 1)].flatten(0, 1)
            accepted = accept(logits, drafts, ChosenRows(table, counts, slots, positions, VOCABULARY))
            tokens, offered = accepted.tokens, accepted.offered
            assert ((offered >= 1) & (offered <= drafts.counts + 1)).all()
        for column in range(columns):
            taken = column < offered
            at, token = slots[taken], tokens[taken, column]
            text[at, length[at]] = token
            counts[at, token] += 1
            length[at] += 1
    return text[:, :wanted]


def excess(target: Target, text: torch.Tensor) -> float:
    """Chi-square of the first two tokens, over what it exceeds once in 10,000 times (Wilson and Hilferty): below 1 for
    the target's law."""
    cells = torch.bincount(text[:, 0] * VOCABULARY + text[:, 1], minlength=VOCABULARY**2).double()
    none = torch.zeros(VOCABULARY, dtype=torch.int32)
    first = target.law(0, none)
    second = [target.law(token, none.index_fill(0, torch.tensor(token), 1)) for token in range(VOCABULARY)]
    expected = torch.cat([first[token] * second[token] for token in range(VOCABULARY)]) * len(text)
    assert cells[expected == 0].sum() == 0, "a token that the target cannot have"
    some = expected >= 5
    rest = torch.stack((expected[~some].sum(), cells[~some].sum()))
    statistic = ((cells - expected)[some].square() / expected[some]).sum().item()
    if rest[0] > 0:
        statistic += ((rest[1] - rest[0]) ** 2 / rest[0]).item()
    freedom = max(1, int(some.sum()) - 1)
    spread = 2 / (9 * freedom)
    return statistic / (freedom * (1 - spread + 3.72 * math.sqrt(spread)) ** 3)


def logits_of(seed: int) -> torch.Tensor:
    return torch.randn(VOCABULARY, VOCABULARY, generator=torch.Generator().manual_seed(seed)) * 1.5


SETTINGS: dict[str, dict[str, float]] = {
    "plain": {},
    "top-p": {"top_p": 0.8},
    "min-p": {"min_p": 0.15},
    "penalties": {"presence": 1.0, "frequency": 0.5},
}
OURS, THEIRS = logits_of(1), logits_of(1) + 0.7 * logits_of(2)


@pytest.mark.parametrize("temperature", [0.7, 1.0])
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("kind", ["drawn", "certain", "told certain", "no law"])
def test_two_tokens_have_the_law_of_the_target(kind: str, settings: str, temperature: float) -> None:
    target = Target(OURS, temperature, **SETTINGS[settings])
    drafters: dict[str, Drawn | Certain] = {
        "drawn": Drawn(THEIRS, temperature, temperature),
        "certain": Certain(THEIRS, ragged=True),
        "told certain": Certain(THEIRS, told=True, ragged=True),
        "no law": Nothing(THEIRS, temperature, temperature),
    }
    assert excess(target, generate(target, drafters[kind], 2)) < 1.0


def test_a_law_of_another_temperature_would_be_seen() -> None:
    target = Target(OURS, 0.7)
    assert excess(target, generate(target, Drawn(THEIRS, 0.7, 1.0), 2)) > 2.0


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_with_certain_drafts_the_text_is_the_one_without(temperature: float) -> None:
    target = Target(OURS, temperature, top_p=0.9, presence=0.4)
    drafter = Certain(THEIRS, ragged=True)
    assert torch.equal(generate(target, drafter, 6), generate(target, drafter, 6, rounds_of_sample=True))


def test_laws_do_not_matter_in_greedy_rows() -> None:
    target = Target(OURS, 0.0)
    drawn = generate(target, Drawn(THEIRS, 1.0, 1.0), 5)
    assert torch.equal(drawn, generate(target, Certain(THEIRS), 5, rounds_of_sample=True))


@pytest.mark.parametrize("told", [False, True])
def test_right_drafts_are_all_kept_and_others_are_not_looked_at(told: bool) -> None:
    drafts = Certain(OURS, told=told).propose(torch.zeros(3).long(), torch.zeros(3).long(), torch.zeros(3, COLUMNS))
    logits = OURS[torch.cat((torch.zeros(3, 1).long(), drafts.token_ids), 1)].flatten(0, 1)
    meant = torch.tensor([3, 1, 0])
    table, slots = Target(OURS, 1e-4).table(3), torch.arange(3)
    counts, positions = torch.zeros(3, VOCABULARY, dtype=torch.int32), torch.arange(COLUMNS).expand(3, -1)
    accepted = accept(logits, replace(drafts, counts=meant), ChosenRows(table, counts, slots, positions, VOCABULARY))
    assert accepted.offered.tolist() == [4, 2, 1]
    assert accepted.drafted.tolist() == [3, 1, 0]
    text = torch.cat((drafts.token_ids, OURS[drafts.token_ids[:, -1:]].argmax(-1)), 1)
    for row, offered in enumerate(accepted.offered.tolist()):
        assert torch.equal(accepted.tokens[row, :offered], text[row, :offered])


def test_a_drawn_draft_is_kept_more_often_than_one_of_which_only_the_token_is_known() -> None:
    """min(p, q) against p · q: what knowing the law is for."""
    target, positions = Target(OURS, 1.0), torch.arange(COLUMNS).expand(SEQUENCES, -1)
    table, anchors = target.table(SEQUENCES), torch.zeros(SEQUENCES, dtype=torch.int64)
    drafts = Drawn(THEIRS, 1.0, 1.0).propose(anchors, table.seeds, positions)
    logits = OURS[torch.cat((anchors.unsqueeze(1), drafts.token_ids), 1)].flatten(0, 1)
    counts = torch.zeros(SEQUENCES, VOCABULARY, dtype=torch.int32)
    rows = ChosenRows(table, counts, torch.arange(SEQUENCES), positions, VOCABULARY)
    drawn = accept(logits, drafts, rows).offered
    certain = accept(logits, Drafts(drafts.token_ids, drafts.counts), rows).offered
    assert drafts.law_ids is not None and drafts.probabilities is not None
    law = torch.zeros(VOCABULARY).index_add(0, drafts.law_ids[0, 0], drafts.probabilities[0, 0]).double()
    ours = target.law(0, counts[0])
    for offered, chance in ((drawn, torch.minimum(ours, law).sum()), (certain, (ours * law).sum())):
        assert (offered > 1).double().mean().item() == pytest.approx(chance.item(), abs=0.015)
