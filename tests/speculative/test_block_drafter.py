"""DFlash and DFlash2 against the code that their weights are trained with, however a sequence comes in pieces."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch

from ninfer_core.api import Draft
from ninfer_core.testing.tolerances import FP32_LOGITS
from tests.speculative import block_oracle
from tests.speculative.block_oracle import Bench, Kind, draft_header

KINDS = {
    "dflash": Kind(second=False),
    "dflash2": Kind(second=True),
    "dflash2 of 16 columns": Kind(second=True, columns=16),
    "dflash2 of 2 columns": Kind(second=True, columns=2),
    "causal": Kind(second=False, causal=True),
    "sliding layers are causal unless told, others are not": Kind(second=False, windows=(20, 20, None), causal=None),
    "layers with and without a window": Kind(second=True, windows=(None, 20, None), causal=False),
}
CUTS = {
    "at once": [(0, 63)],
    "in parts": [(0, 1), (1, 30), (30, 63)],
    "longer than the ring": [(0, 40), (40, 41), (41, 63)],
}


@pytest.fixture(params=KINDS, scope="module")
def bench(request: pytest.FixtureRequest) -> Bench:
    return Bench(KINDS[request.param])


def drafted(bench: Bench, slot: int, length: int) -> list[int]:
    """What the oracle drafts, greedily."""
    hidden, logits = bench.expected(slot, length)
    if not bench.kind.second:
        return logits.argmax(-1).tolist()
    before, chosen = bench.tokens[slot, length], []
    values, candidates = logits.topk(16)
    for step in range(len(hidden)):
        scores = values[step] + bench.oracle.candidate_selector.edges(before, hidden[step], candidates[step])
        before = candidates[step, scores.argmax()]
        chosen.append(int(before))
    return chosen


@torch.inference_mode()
@pytest.mark.parametrize("cut", CUTS)
def test_a_prompt_in_parts_then_rounds_of_several_sequences(bench: Bench, cut: str) -> None:
    """Of every round another number of columns is committed; what lies behind them is not a number."""
    for slot in (2, 0):
        for start, stop in CUTS[cut]:
            bench.ingest(slot, start, stop)
    bench.ingest(3, 0, 5)
    at = {2: 63, 0: 63, 3: 5}
    width = bench.kind.columns
    for counts in ({2: 1, 0: 1, 3: 1}, {2: width, 3: 1}, {3: min(3, width), 0: width, 2: 1}, {0: 1, 2: 2, 3: width}):
        draft = bench.propose(list(counts), [at[slot] for slot in counts], list(counts.values()))
        for slot, count in counts.items():
            at[slot] += count
        for row, slot in enumerate(counts):
            assert draft.token_ids[row].tolist() == drafted(bench, slot, at[slot]), (slot, at[slot])


@torch.inference_mode()
def test_a_prompt_of_one_token(bench: Bench) -> None:
    """Nothing is ingested: the first round brings the first column."""
    draft = bench.propose([1], [0], [1])
    assert draft.token_ids[0].tolist() == drafted(bench, 1, 1)


@torch.inference_mode()
@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_dflash2_tells_the_law_that_it_drew_from(temperature: float) -> None:
    bench = Bench(KINDS["dflash2"])
    for slot in range(4):
        bench.ingest(slot, 0, 30 + slot)
    draft = bench.propose([0, 1, 2, 3], [30, 31, 32, 33], [1, 1, 1, 1], temperature)
    assert draft.law_ids is not None and draft.probabilities is not None and draft.counts is None
    seen = set()
    for slot in range(4):
        hidden, logits = bench.expected(slot, 31 + slot)
        before = bench.tokens[slot, 31 + slot]
        for step in range(bench.kind.columns - 1):
            values, candidates = logits[step].topk(16)
            edges = bench.oracle.candidate_selector.edges(before, hidden[step], candidates)
            assert draft.law_ids[slot, step].tolist() == candidates.tolist()
            FP32_LOGITS.check(draft.probabilities[slot, step], ((values + edges) / temperature).softmax(-1))
            before = draft.token_ids[slot, step]
            assert before in candidates
            seen.add(candidates.tolist().index(int(before)))
    assert len(seen) > 3, "it is drawn from the law, not always the likeliest"


@torch.inference_mode()
def test_dflash_is_certain_at_every_temperature() -> None:
    bench = Bench(KINDS["dflash"])
    bench.ingest(0, 0, 30)
    draft = bench.propose([0], [30], [1], temperature=1.0)
    assert draft.law_ids is None and draft.probabilities is None
    assert draft.token_ids[0].tolist() == drafted(bench, 0, 31)


@torch.inference_mode()
@pytest.mark.parametrize("name", ["dflash", "dflash2"])
def test_a_reduced_head_proposes_its_own_tokens(name: str) -> None:
    """Codebooks and the next column go by token, not by the row of the reduced head."""
    proposed = torch.randperm(96, generator=torch.Generator().manual_seed(4))[:40]
    bench = Bench(KINDS[name], proposed=proposed)
    bench.ingest(0, 0, 30)
    draft = bench.propose([0], [30], [1])
    hidden, logits = bench.expected(0, 31)
    allowed = torch.full_like(logits, float("-inf"))
    allowed[:, proposed] = logits[:, proposed]
    bench.expected = lambda slot, length: (hidden, allowed)  # type: ignore[method-assign]
    assert draft.token_ids[0].tolist() == drafted(bench, 0, 31)


@torch.inference_mode()
def test_the_scale_of_embeddings_and_the_transform_of_logits_are_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = block_oracle.draft_config
    extra = {"input_embedding_scale": 3.0, "output_multiplier": 0.5, "final_logit_softcapping": 2.0}
    monkeypatch.setattr(block_oracle, "draft_config", lambda kind, sizes: plain(kind, sizes) | extra)
    bench = Bench(KINDS["dflash2"])
    assert extra.items() <= json.loads(draft_header(bench.kind, bench.oracle).resources["draft_config.json"]).items()
    bench.ingest(0, 0, 30)
    draft = bench.propose([0], [30], [1])
    bench.model.embedding = 3.0 * bench.model.embedding
    hidden, logits = bench.expected(0, 31)
    capped = 2.0 * torch.tanh(logits * 0.5 / 2.0)
    bench.expected = lambda slot, length: (hidden, capped)  # type: ignore[method-assign]
    assert draft.token_ids[0].tolist() == drafted(bench, 0, 31)


def test_the_context_is_all_in_declared_arrays() -> None:
    """A sequence that is copied to another slot goes on there."""
    bench = Bench(KINDS["layers with and without a window"])
    with torch.inference_mode():
        bench.ingest(0, 0, 50)
        for array in bench.state.values():
            array[:, 3] = array[:, 0]
        bench.features[3], bench.tokens[3] = bench.features[0], bench.tokens[0]
        here, there = (bench.propose([slot], [50], [4]) for slot in (0, 3))
    assert torch.equal(here.token_ids, there.token_ids)


def test_needs_say_what_is_held() -> None:
    bench = Bench(KINDS["layers with and without a window"])
    shapes = {array.name: (array.layers, *array.shape) for array in bench.needs.state}
    assert shapes == {
        "draft_keys_all": (2, 2, 256, 32),
        "draft_values_all": (2, 2, 256, 32),
        "draft_keys_window": (1, 2, 20, 32),
        "draft_values_window": (1, 2, 20, 32),
    }
    assert bench.needs.taps == (4, 0, 3) and bench.needs.groups == ("draft",) and bench.needs.law_width == 16
    stored = sum(weight.numel() for weight in bench.oracle.parameters())
    assert sum(spec.elements for spec in bench.needs.resident) == stored
    assert Bench(KINDS["dflash"]).needs.law_width == 0


DEFECTS = ["causal flipped", "anchor masked", "features permuted", "rope"]


@torch.inference_mode()
@pytest.mark.parametrize("defect", DEFECTS)
def test_each_defect_changes_drafts(defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparisons above would not pass with any of these."""
    kind = KINDS["dflash2"]
    bench = Bench(kind)
    broken = Bench(dataclasses.replace(kind, causal=defect == "causal flipped"))
    if defect == "features permuted":
        broken.features = broken.features.roll(1, dims=2)
    elif defect == "rope":
        broken.drafter._frequency.mul_(0.9)  # type: ignore[attr-defined]
    elif defect == "anchor masked":
        embed = broken.model.embed
        mask = torch.full((1, kind.columns), broken.sizes.mask_token_id)
        broken.model.embed = lambda token_ids: embed(mask.expand_as(token_ids))  # type: ignore[method-assign]
    found: list[Draft] = []
    for each in (bench, broken):
        each.ingest(0, 0, 40)
        found.append(each.propose([0], [40], [1]))
    good, bad = found
    assert good.token_ids[0].tolist() == drafted(bench, 0, 41)
    assert good.token_ids.tolist() != bad.token_ids.tolist()
