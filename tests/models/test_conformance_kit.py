"""The family conformance suite finds families that are wrong: each of these breaks one promise."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch

from ninfer_core.api import ForwardBatch, Model, RecurrentState
from ninfer_core.testing.family import FamilyConformance, FamilySubject

SUITE = FamilyConformance()


class Wrong:
    """A right model behind a mistake; subclasses make it."""

    def __init__(self, right: Model) -> None:
        self.right = right

    def prefill(self, batch: ForwardBatch) -> torch.Tensor:
        return self.right.prefill(batch)

    def decode(self, batch: ForwardBatch) -> torch.Tensor:
        return self.right.decode(batch)

    def fold(self, state: RecurrentState) -> None:
        self.right.fold(state)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.right.logits(hidden)


class NeverFolds(Wrong):
    def decode(self, batch: ForwardBatch) -> torch.Tensor:
        none = torch.zeros_like(batch.state.accepted)
        return self.right.decode(dataclasses.replace(batch, state=dataclasses.replace(batch.state, accepted=none)))


class FoldsAtOnce(Wrong):
    def decode(self, batch: ForwardBatch) -> torch.Tensor:
        hidden = self.right.decode(batch)
        every = torch.full_like(batch.state.accepted, batch.token_ids.shape[1])
        self.right.fold(dataclasses.replace(batch.state, accepted=every))
        return hidden


class MixesRows(Wrong):
    def decode(self, batch: ForwardBatch) -> torch.Tensor:
        hidden = self.right.decode(batch)
        return hidden + 1e-6 * hidden.mean(0, keepdim=True) * (hidden.shape[0] > 1)


class KeepsNothing(Wrong):
    def prefill(self, batch: ForwardBatch) -> torch.Tensor:
        for pool in batch.state.arrays.values():
            pool[:, batch.state.slots] = 0
        return self.right.prefill(batch)


class WritesElsewhere(Wrong):
    def fold(self, state: RecurrentState) -> None:
        self.right.fold(state)
        next(iter(state.arrays.values()))[:, 1] += 1


class ForgetsTheNorm(Wrong):
    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.right.logits(hidden * 1.001)


BREAKS: list[tuple[type[Wrong], Callable[[FamilySubject], None]]] = [
    (NeverFolds, SUITE.test_decode_is_prefill),
    (NeverFolds, SUITE.test_exactly_the_accepted_columns_are_folded),
    (FoldsAtOnce, SUITE.test_a_round_that_is_given_up_leaves_no_trace),
    (MixesRows, SUITE.test_a_batch_is_its_rows_bit_for_bit),
    (KeepsNothing, SUITE.test_prefill_in_chunks_is_one_shot),
    (WritesElsewhere, SUITE.test_slots_of_others_are_left_alone),
    (ForgetsTheNorm, SUITE.test_prefill_has_the_logits_of_the_oracle),
]


@pytest.fixture(scope="module")
def subject(make_checkpoint: Callable[..., Any]) -> FamilySubject:
    right: FamilySubject = make_checkpoint().subject()
    return right


@pytest.mark.parametrize(("mistake", "test"), BREAKS, ids=lambda each: each.__name__)
def test_a_mistake_is_found(
    mistake: type[Wrong], test: Callable[[FamilySubject], None], subject: FamilySubject
) -> None:
    with pytest.raises(AssertionError):
        test(dataclasses.replace(subject, model=mistake(subject.model)))
