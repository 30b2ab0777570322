"""The plugin `mtp`: what it asks of an artifact, what it costs, and which columns its head is applied to."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from ninfer_speculative import mtp
from ninfer_speculative.mtp.drafter import MtpDrafter

from ninfer_core.api import DraftColumns, DraftSampling, PlanRejected, PluginIncompatible
from ninfer_core.artifact import open_artifact
from ninfer_core.ops.likeliest import likeliest
from ninfer_core.plugins import PluginRegistry
from ninfer_core.testing.tiny import tiny_header, tiny_plan


@pytest.fixture(scope="module")
def registry() -> PluginRegistry:
    return PluginRegistry.discover()


def test_an_artifact_without_a_head_is_refused_with_ways_out() -> None:
    with pytest.raises(PluginIncompatible) as caught:
        mtp.ninfer_spec_draft_tokens(tiny_header())
    assert "mtp.*" in caught.value.message and "ninfer convert HF_DIR --draft DRAFT_DIR" in caught.value.message
    able = mtp.ninfer_spec_draft_tokens(tiny_header(drafting=True))
    assert (able.default, able.most) == (3, 5)


@pytest.mark.contract("OPT-24")
def test_no_more_than_five(registry: PluginRegistry) -> None:
    header = open_artifact(None, registry).header
    assert tiny_plan(registry, header, spec="mtp").capacities.draft_tokens == 3
    assert tiny_plan(registry, header, spec="mtp", draft_tokens=5).capacities.draft_tokens == 5
    with pytest.raises(PlanRejected, match="6") as caught:
        tiny_plan(registry, header, spec="mtp", draft_tokens=6)
    assert "5" in str(caught.value)


@pytest.mark.contract("GEN-23", "OPT-25")
def test_what_is_not_asked_for_is_not_loaded(registry: PluginRegistry) -> None:
    """The head is 910,720 numbers, in float32 on a CPU; the reduced head is 2,048 rows of the head, and their ids."""
    header = open_artifact(None, registry).header
    stored = {spec.name: spec for spec in header.tensors}
    plans = [tiny_plan(registry, header, **given) for given in ({}, {"spec": "mtp"}, MTP_REDUCED)]
    plain, drafting, reduced = (plan.ledger.line("weights").bytes for plan in plans)
    head = sum(spec.elements for name, spec in stored.items() if name.startswith("mtp."))
    rows = stored["draft_head.token_ids"].shape[0]
    assert plans[0].drafter is None and drafting - plain == 4 * head
    assert reduced - drafting == rows * (4 * 256 + 8)


MTP_REDUCED = {"spec": "mtp", "lm_head_draft": True}
HIDDEN = 2
COLUMNS = 4


class Told:
    """A head and a model that say what they are asked: hidden states carry the token and the position of their column,
    and the likeliest draft is the place of the token in `ids`, one further for every draft."""

    def __init__(self, ids: list[int] | None) -> None:
        self.draft_token_ids = None if ids is None else torch.tensor(ids)
        self.begun: list[list[int]] = []
        self.calls: list[tuple[Any, Any, Any]] = []

    def __call__(self, token_ids: torch.Tensor, hidden: torch.Tensor, positions: torch.Tensor, cache: Any) -> Any:
        assert positions.shape == (3, *token_ids.shape) and hidden.shape == (*token_ids.shape, HIDDEN)
        self.calls.append((token_ids.tolist(), hidden[..., 0].tolist(), positions[1].tolist()))
        return hidden + 1

    def draft_logits(self, hidden: torch.Tensor) -> torch.Tensor:
        assert hidden.shape[1:] == (1, HIDDEN)
        return torch.nn.functional.one_hot(hidden[..., 0].long() % 8, 8).float()

    def cache(self, lengths: torch.Tensor) -> str:
        self.begun.append(lengths.tolist())
        return "cache"


def columns(model: Told) -> DraftColumns:
    """A row of two committed columns from position 10 on and one of four from 3 on."""
    places = torch.arange(COLUMNS)
    features = torch.tensor([[0.0, 1.0, 90.0, 90.0], [2.0, 3.0, 4.0, 5.0]])
    return DraftColumns(
        slots=torch.tensor([1, 0]),
        positions=torch.stack((10 + places, 3 + places)),
        token_ids=torch.tensor([[20, 21, 0, 0], [30, 31, 32, 33]]),
        features=features[:, :, None, None].expand(-1, -1, 1, HIDDEN),
        counts=torch.tensor([2, 4]),
        anchors=torch.tensor([21, 33]),
        lengths=torch.tensor([12, 7]),
        state={},
        cache=model.cache,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("ids", [None, [40, 41, 42, 43, 44, 45, 46, 47]])
def test_each_draft_comes_from_the_column_before_it(ids: list[int] | None) -> None:
    model: Any = Told(ids)
    drafter = MtpDrafter(model, model, 3, likeliest)
    draft = drafter.propose(columns(model), DraftSampling(torch.zeros(2), torch.zeros(2, dtype=torch.int64)))
    # The last committed columns are those of features 1 and 5; the head adds one each time.
    expected = [[2, 3, 4], [6, 7, 0]]
    token = (lambda place: place) if ids is None else ids.__getitem__
    assert draft.token_ids.tolist() == [[token(place) for place in row] for row in expected]
    assert draft.counts is None and draft.law_ids is None and draft.probabilities is None
    assert model.begun == [[10, 3], [12, 7], [13, 8]]
    assert [call[2] for call in model.calls] == [[[10, 11, 12, 13], [3, 4, 5, 6]], [[12], [7]], [[13], [8]]]
    assert model.calls[0][0] == [[20, 21, 0, 0], [30, 31, 32, 33]]
    assert [call[0] for call in model.calls[1:]] == [[[token(2)], [token(6)]], [[token(3)], [token(7)]]]


def test_a_prompt_is_taken_in_as_it_comes() -> None:
    model: Any = Told(None)
    MtpDrafter(model, model, 3, likeliest).ingest(columns(model))
    assert model.begun == [[10, 3]] and len(model.calls) == 1
