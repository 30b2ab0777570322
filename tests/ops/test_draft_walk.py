"""The walk through candidates against its rules in float64, written out; every route."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from ninfer_core.ops.draft_walk import CHOICES, Codebooks, DraftWalk, LogitTransform, Walk, draft_walk, select
from ninfer_core.ops.sample import Purpose, uniform

VOCABULARY, RANK = 300, 32


@pytest.fixture(params=["reference", "kernel"])
def route(request: pytest.FixtureRequest, kernel_device: torch.device) -> tuple[DraftWalk, torch.device]:
    if request.param == "reference":
        return draft_walk, torch.device("cpu")
    from ninfer_core.ops.draft_walk.triton import TritonWalk
    from ninfer_core.ops.kernels.maxima import Launch

    return TritonWalk(Launch(group_tokens=32, block_groups=4, maxima_warps=4, draw_warps=4)), kernel_device


@dataclass(frozen=True, slots=True)
class Case:
    """Inputs of one call, all on the CPU. Codes are large, so that the one before matters."""

    logits: torch.Tensor
    proposed_ids: torch.Tensor | None
    states: torch.Tensor
    codebooks: Codebooks
    transform: LogitTransform
    anchors: torch.Tensor
    positions: torch.Tensor
    temperature: torch.Tensor
    seeds: torch.Tensor

    def run(self, walk: DraftWalk, device: torch.device) -> Walk:
        def there(value: Any) -> Any:
            if isinstance(value, Codebooks):
                return Codebooks(value.predecessor.to(device), value.successor.to(device))
            return value.to(device) if isinstance(value, torch.Tensor) else value  # strides stay

        made = walk(*(there(getattr(self, name)) for name in self.__slots__))
        return Walk(made.token_ids.cpu(), made.law_ids.cpu(), made.probabilities.cpu())

    def candidates(self, row: int, draft: int) -> list[tuple[int, float]]:
        """Tokens and transformed logits, in the order of the contract."""
        values = self.logits[row, draft].double().tolist()
        places = sorted(range(len(values)), key=lambda place: (-values[place], place))[:CHOICES]
        cap, factor = self.transform.softcap, self.transform.multiplier
        scores = [values[place] * factor for place in places]
        if cap is not None:
            scores = [math.tanh(score / cap) * cap for score in scores]
        ids = places if self.proposed_ids is None else [int(self.proposed_ids[place]) for place in places]
        return list(zip(ids, scores, strict=True))

    def expected(self, row: int) -> tuple[list[int], list[list[int]], list[list[float]]]:
        """Drafts, candidates and laws of one row."""
        before, tokens, ids, laws = int(self.anchors[row]), [], [], []
        heat = float(self.temperature[row])
        for draft in range(self.logits.shape[1]):
            choices = self.candidates(row, draft)
            state = self.codebooks.predecessor[before].double() * self.states[row, draft].double()
            scores = [unary + float(self.codebooks.successor[token].double() @ state) for token, unary in choices]
            peak = max(scores)
            weights = [math.exp((score - peak) / heat) if heat > 0 else float(score == peak) for score in scores]
            aim = uniform(self.seeds[row], self.positions[row, draft], Purpose.DRAFT).item() if heat > 0 else 0.0
            aim *= math.fsum(weights)
            slot = next(slot for slot in range(CHOICES) if math.fsum(weights[: slot + 1]) > aim)
            before = choices[slot][0]
            tokens.append(before)
            ids.append([token for token, _ in choices])
            laws.append([weight / math.fsum(weights) for weight in weights])
        return tokens, ids, laws


def case(
    rows: int, drafts: int, *, proposed: int = VOCABULARY, dtype: torch.dtype = torch.float32, **transform: float
) -> Case:
    ids = None if proposed == VOCABULARY else torch.randperm(VOCABULARY)[:proposed]
    return Case(
        logits=(torch.randn(rows, drafts, proposed) * 3).to(dtype),
        proposed_ids=ids,
        states=torch.randn(rows, drafts, RANK).to(dtype),
        codebooks=Codebooks(torch.randn(VOCABULARY, RANK).to(dtype), torch.randn(VOCABULARY, RANK).to(dtype)),
        transform=LogitTransform(**transform),
        anchors=torch.randint(0, VOCABULARY, (rows,)),
        positions=torch.randint(0, 5000, (rows, 1)) + torch.arange(drafts),
        # A view with strides, as the settings of slots are kept.
        temperature=torch.tensor([[0.0, 9.0], [0.7, 9.0], [1.0, 9.0], [2.5, 9.0]])[torch.arange(rows) % 4][:, 0],
        seeds=torch.randint(-(1 << 62), 1 << 62, (rows,)),
    )


def check(made: Walk, given: Case) -> None:
    for row in range(given.anchors.shape[0]):
        tokens, ids, laws = given.expected(row)
        assert made.token_ids[row].tolist() == tokens
        assert made.law_ids[row].tolist() == ids
        torch.testing.assert_close(made.probabilities[row].double(), torch.tensor(laws).double(), atol=2e-5, rtol=2e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_walk_by_its_rules(route: tuple[DraftWalk, torch.device], dtype: torch.dtype) -> None:
    given = case(5, 3, dtype=dtype)
    check(given.run(*route), given)


def test_a_part_of_the_vocabulary_in_any_order(route: tuple[DraftWalk, torch.device]) -> None:
    given = case(2, 2, proposed=70, multiplier=0.5, softcap=4.0)
    made = given.run(*route)
    check(made, given)
    assert given.proposed_ids is not None
    assert set(made.law_ids.flatten().tolist()) <= set(given.proposed_ids.tolist())


def test_equal_logits_and_scores_go_by_their_order(route: tuple[DraftWalk, torch.device]) -> None:
    given = case(1, 2)
    given.logits.zero_()
    given.states.zero_()
    made = given.run(*route)
    assert made.law_ids[0, 0].tolist() == list(range(CHOICES))
    assert made.token_ids[0].tolist() == [0, 0]
    assert made.probabilities[0, 1].tolist() == [1.0] + [0.0] * (CHOICES - 1)


def test_a_row_does_not_depend_on_the_others(route: tuple[DraftWalk, torch.device]) -> None:
    given = case(3, 2)
    together = given.run(*route)
    for row in range(3):
        one = slice(row, row + 1)
        parts: dict[str, Any] = {
            name: value[one] if isinstance(value := getattr(given, name), torch.Tensor) else value
            for name in Case.__slots__
        }
        alone = Case(**parts).run(*route)
        assert torch.equal(alone.token_ids, together.token_ids[one])
        assert torch.equal(alone.probabilities, together.probabilities[one])


def test_what_is_no_number_gives_tokens_all_the_same(route: tuple[DraftWalk, torch.device]) -> None:
    given = case(2, 2)
    given.states.fill_(float("nan"))
    given.logits[1].fill_(float("nan"))
    made = given.run(*route)
    assert ((made.token_ids >= 0) & (made.token_ids < VOCABULARY)).all()
    assert made.probabilities[1].isnan().all()


def test_who_asks_gets_the_reference() -> None:
    assert select(torch.device("cpu"), "auto") is draft_walk
    assert select(torch.device("cuda"), "reference") is draft_walk
