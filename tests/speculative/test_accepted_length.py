"""Tokens of a round in the engine are those that the training code measures, which computes every round anew from
whole rows; each likely mistake in what a drafter is shown is seen in what is accepted, and never in a text."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache

import pytest
import torch
from ninfer_speculative.block.drafter import BlockDrafter

from ninfer_core.api import Draft, DraftColumns, DraftSampling
from ninfer_core.artifact.handle import ArtifactHandle
from tests.speculative.served import (
    BACKENDS,
    QUESTIONS,
    Outcome,
    Served,
    Wish,
    dflash_artifact,
    draft_config,
    embedded,
    play,
    serve,
    tokens_per_round,
    with_draft_config,
)
from tools.tiny_model import draft_measure
from tools.tiny_model.draft_files import Drafters
from tools.tiny_model.draft_measure import draft_block, draft_mtp, prompts_of
from tools.tiny_model.geometry import Geometry
from tools.tiny_model.model import TinyModel

DRAFTS = {"mtp": 3, "dflash": 7, "dflash2": 7}
SHARE = 0.01
"""How far engine and training code may be apart."""


@pytest.fixture(scope="module")
def backend() -> Callable[[str | None], Served]:
    torch.set_num_threads(1)
    return cache(serve)


@pytest.fixture(scope="module")
def trained() -> tuple[TinyModel, Drafters]:
    """What the embedded model's weights are of, in the code that they were trained with."""
    model = TinyModel(Geometry.read())
    drafters = Drafters(model.geometry)
    cpu = torch.device("cpu")
    with embedded().open_weights() as weights, torch.no_grad():
        for prefix, module in (("", model), ("mtp.", drafters.mtp), ("draft.", drafters.dflash2)):
            for name, parameter in module.named_parameters():
                parameter.copy_(weights.read(prefix + name, cpu))
    shared = dict(drafters.dflash2.named_parameters())
    with torch.no_grad():
        for name, parameter in drafters.dflash.named_parameters():
            parameter.copy_(shared[name])
    return model.eval(), drafters.eval()


def answers(served: Served, prompts: list[list[int]]) -> list[Outcome]:
    limit = draft_measure.MOST_REPLY - 16
    return play(served, [Wish(ids, served.channel(ids), limit) for ids in prompts])


def prompts_for(served: Served, *questions: int) -> list[list[int]]:
    return [list(served.prompt(QUESTIONS[question])[0]) for question in questions]


def certain_prompts(served: Served) -> list[list[int]]:
    """Whose answers are short and certain: two programs may part where two tokens are nearly as likely."""
    return prompts_for(served, 0, 2, 7)


def short_prompts(served: Served) -> list[list[int]]:
    """With one that the model does not know, where drafts are often others."""
    return prompts_for(served, 0, 2, 3)


def check_lengths(served: Served, trained: tuple[TinyModel, Drafters], name: str, prompts: list[list[int]]) -> float:
    """Over the prompts whose answer comes to its own end: a limit cuts rounds in two ways."""
    found = answers(served, prompts)
    ended = [bool(outcome.ending and outcome.ending[0] == "stop_token") for outcome in found]
    model, drafters = trained
    drafter = draft_mtp(drafters.mtp) if name == "mtp" else draft_block(getattr(drafters, name))
    kept = [ids for ids, whole in zip(prompts, ended, strict=True) if whole]
    assert len(kept) >= len(prompts) / 2
    offline = draft_measure.tokens_per_round(
        model, drafter, kept, drafts=DRAFTS[name], temperature=0.0, stop=served.frontend.stop_token_ids[0]
    )
    engine = tokens_per_round(outcome for outcome, whole in zip(found, ended, strict=True) if whole)
    assert engine == pytest.approx(offline, rel=SHARE), (engine, offline)
    return engine


@pytest.mark.parametrize("name", BACKENDS)
def test_tokens_of_a_round_are_those_of_the_training_code(
    backend: Callable[[str | None], Served], trained: tuple[TinyModel, Drafters], name: str
) -> None:
    served = backend(name)
    assert check_lengths(served, trained, name, certain_prompts(served)) > 2.5


@pytest.mark.long
@pytest.mark.parametrize("kind", ["structured", "free"])
@pytest.mark.parametrize("name", BACKENDS)
def test_tokens_of_a_round_on_held_out_prompts(
    backend: Callable[[str | None], Served], trained: tuple[TinyModel, Drafters], name: str, kind: str
) -> None:
    served = backend(name)
    prompts = [ids for ids in prompts_of(kind, 40) if len(ids) <= 200][:8]
    check_lengths(served, trained, name, prompts)


def changed(artifact: ArtifactHandle, **fields: object) -> ArtifactHandle:
    """Another draft config; keys of the block are found at the top too, once they are gone from their table."""
    config = draft_config(artifact)
    inner = {key: value for key, value in config["dflash_config"].items() if key not in fields}
    return with_draft_config(artifact, config | {"dflash_config": inner} | fields)


def taps_of(artifact: ArtifactHandle) -> list[int]:
    taps: list[int] = draft_config(artifact)["dflash_config"]["target_layer_ids"]
    return taps


DEFECTS: dict[str, Callable[[ArtifactHandle], ArtifactHandle]] = {
    "layer off by one": lambda right: changed(right, target_layer_ids=[tap - 1 for tap in taps_of(right)]),
    "causal flag flipped": lambda right: changed(right, is_causal=True),
    "layers permuted": lambda right: changed(right, target_layer_ids=taps_of(right)[::-1]),
    "rope of another base": lambda right: changed(
        right, rope_parameters={"rope_theta": 10_000.0, "rope_type": "default"}
    ),
    "anchor masked": lambda right: right,
}


def mask_anchors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first row of a block is a mask token like the others."""
    propose, mask = BlockDrafter.propose, draft_config(embedded())["dflash_config"]["mask_token_id"]

    def masked(self: BlockDrafter, columns: DraftColumns, sampling: DraftSampling) -> Draft:
        return propose(self, dataclasses.replace(columns, anchors=torch.full_like(columns.anchors, mask)), sampling)

    monkeypatch.setattr(BlockDrafter, "propose", masked)


@pytest.fixture(scope="module")
def right(backend: Callable[[str | None], Served]) -> list[Outcome]:
    return answers(backend("dflash"), short_prompts(backend("dflash")))


QUICK_DEFECTS = ("layer off by one", "anchor masked")


@pytest.mark.parametrize(
    "defect", [pytest.param(name, marks=[] if name in QUICK_DEFECTS else [pytest.mark.long]) for name in DEFECTS]
)
def test_each_defect_is_seen_in_what_is_accepted_and_in_no_text(
    right: list[Outcome], monkeypatch: pytest.MonkeyPatch, defect: str
) -> None:
    """These drafters, as they were trained, look so little ahead within a block that without it only some of their
    drafts are others."""
    if defect == "anchor masked":
        mask_anchors(monkeypatch)
    served = serve("dflash", DEFECTS[defect](dflash_artifact()))
    wrong = answers(served, short_prompts(served))
    assert [outcome.seen for outcome in wrong] == [outcome.seen for outcome in right]
    assert [outcome.speculation for outcome in wrong] != [outcome.speculation for outcome in right]
    if defect != "causal flag flipped":
        assert tokens_per_round(wrong) < 0.9 * tokens_per_round(right)
