"""Drafters: DFlash2 begins as DFlash, masks let nothing leak, rounds lose nothing, names are those of checkpoints."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import torch
from ninfer_models.qwen_hybrid.geometry import build_geometry
from ninfer_models.qwen_hybrid.inventory import build_inventory
from ninfer_speculative import dflash2
from torch.nn import functional

from ninfer_core.api import DRAFT_CONFIG
from ninfer_core.artifact import open_artifact
from ninfer_core.plugins import PluginRegistry
from tools.tiny_model import draft_measure
from tools.tiny_model.decode import greedy
from tools.tiny_model.draft_files import Drafters, draft_config, load_drafters, save_drafters, stored
from tools.tiny_model.draft_loss import Lesson, block_hidden, block_loss, lesson, mtp_loss
from tools.tiny_model.draft_measure import Drafted, Seen, accept, draft_block, draft_mtp, tokens_per_round
from tools.tiny_model.drafters import DraftGeometry
from tools.tiny_model.encode import IGNORED
from tools.tiny_model.geometry import Geometry
from tools.tiny_model.model import TinyModel

STOP = 3


@pytest.fixture(scope="module")
def target() -> TinyModel:
    torch.manual_seed(5)
    small = replace(Geometry.read(), vocab_size=48, hidden_size=32, intermediate_size=48,
                    layer_types=("linear_attention", "full_attention"))  # fmt: skip
    return TinyModel(small).eval().requires_grad_(requires_grad=False)


@pytest.fixture(scope="module")
def drafters(target: TinyModel) -> Drafters:
    torch.manual_seed(6)
    sizes = DraftGeometry(hidden_size=32, vocab_size=48, head_dim=16, num_attention_heads=2, num_key_value_heads=1,
                          intermediate_size=48, sliding_window=12, block_size=4, target_layer_ids=(0, 1),
                          mask_token_id=40, conv_group_size=8, selector_rank=8, selector_top_k=6)  # fmt: skip
    return Drafters(target.geometry, sizes)


def taught(target: TinyModel, tokens: torch.Tensor, anchors: torch.Tensor) -> Lesson:
    positions = torch.arange(tokens.shape[1]).expand_as(tokens)
    return lesson(target, tokens, positions, tokens.roll(-1, 1), anchors, taps=(0, 1), block=4, chunk=16)


def test_dflash2_begins_as_exactly_dflash(target: TinyModel, drafters: Drafters) -> None:
    given = taught(target, torch.randint(0, 40, (2, 32)), torch.tensor([[5, 20], [9, 27]]))
    first, second = (block_hidden(drafter, target, given) for drafter in (drafters.dflash, drafters.dflash2))
    assert torch.equal(first, second)
    candidates = torch.arange(6).expand(2, 2, 3, 6)
    assert not drafters.dflash2.candidate_selector.edges(given.tokens[:, :2, None], second, candidates).any()


def test_a_block_sees_its_window_before_the_anchor_and_nothing_else(target: TinyModel, drafters: Drafters) -> None:
    tokens = torch.randint(0, 40, (1, 48))
    anchors = torch.tensor([[20, 30]])

    def first_block(changed: int) -> torch.Tensor:
        given = taught(target, tokens, anchors)
        taps = given.taps.clone()
        taps[:, changed] += 1
        return block_hidden(drafters.dflash, target, replace(given, taps=taps))[:, 0]

    plain = block_hidden(drafters.dflash, target, taught(target, tokens, anchors))[:, 0]
    # The window is 12: the last row of the block, at 23, reaches back to 12; the first one to 9.
    assert torch.equal(first_block(20), plain)
    assert torch.equal(first_block(8), plain)
    assert torch.equal(first_block(31), plain)
    assert not torch.equal(first_block(19), plain)
    assert not torch.equal(first_block(10), plain)


def test_losses_reach_every_weight(target: TinyModel, drafters: Drafters) -> None:
    given = taught(target, torch.randint(0, 40, (2, 32)), torch.tensor([[5, 20], [9, 27]]))
    added = drafters.added_by_second()
    block_loss(drafters.dflash2, target, given).backward()
    # The predecessors come alive when the successors, which begin at zero, have moved.
    still = {name for name, weight in added.items() if weight.grad is None or not weight.grad.any()}
    assert still == {"candidate_selector/predecessor_codebook", "candidate_selector/hidden_projection/weight"}
    (mtp_loss(drafters.mtp, target, given) + block_loss(drafters.dflash, target, given)).backward()
    for module in (drafters.mtp, drafters.dflash):
        assert all(weight.grad is not None and weight.grad.any() for weight in module.parameters())


def test_labels_that_are_not_learned_end_the_lesson(target: TinyModel) -> None:
    tokens = torch.randint(0, 40, (1, 32))
    labels = tokens.roll(-1, 1)
    labels[:, 11] = IGNORED
    positions = torch.arange(32)[None]
    given = lesson(target, tokens, positions, labels, torch.tensor([[10]]), taps=(0,), block=4, chunk=16)
    assert given.valid.tolist() == [[[True, False, False]]]


@pytest.mark.parametrize("name", ["mtp", "dflash", "dflash2"])
def test_rounds_say_what_the_target_alone_says(
    target: TinyModel, drafters: Drafters, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draft_measure, "MOST_REPLY", 20)
    said: list[list[int]] = []
    drafter = draft_mtp(drafters.mtp) if name == "mtp" else draft_block(getattr(drafters, name))

    def watched(model: TinyModel, seen: Seen, temperature: float, drafts: int) -> Drafted:
        said[:] = [row[: int(count)].tolist() for row, count in zip(seen.tokens, seen.count, strict=True)]
        return drafter(model, seen, temperature, drafts)

    prompts = [[5, 9, 30, 11], [7, 8, 9, 10, 11, 12, 13]]
    mean = tokens_per_round(target, watched, prompts, drafts=3, temperature=0.0, stop=STOP)
    assert 1 <= mean <= 4
    alone = greedy(target, prompts, most=20, stop=STOP)
    for row, prompt, whole in zip(said, prompts, alone, strict=True):
        reply = row[len(prompt) :]
        assert len(reply) >= min(10, len(whole))
        assert reply == whole[: len(reply)]


@torch.no_grad()
def test_a_block_is_drafted_as_it_was_trained(target: TinyModel, drafters: Drafters) -> None:
    tokens = torch.randint(0, 40, (2, 32))
    given = taught(target, tokens, torch.tensor([[14], [14]]))
    hidden, residuals = draft_measure.run_target(target, tokens)
    seen = Seen(tokens, torch.tensor([15, 15]), hidden, residuals)
    for name in ("dflash", "dflash2"):
        drafter = getattr(drafters, name)
        trained = target.logits(block_hidden(drafter, target, given)[:, 0])
        assert draft_block(drafter)(target, seen, 0.0, 3).tokens.equal(trained.argmax(-1))
    # What the rows should say is what the target says from the anchor on.
    assert torch.allclose(given.taught[:, 0], target.logits(hidden[:, 14:17]).softmax(-1), atol=1e-6)


@torch.no_grad()
def test_the_head_drafts_as_it_was_trained(target: TinyModel, drafters: Drafters) -> None:
    tokens = torch.randint(0, 40, (1, 32))
    hidden, residuals = draft_measure.run_target(target, tokens)
    seen = Seen(tokens, torch.tensor([15]), hidden, residuals)
    drafted = draft_mtp(drafters.mtp)(target, seen, 0.0, 2).tokens
    # With the drafted token in the text, training looks at exactly what drafting looked at.
    forced = tokens.clone()
    forced[0, 15] = drafted[0, 0]
    weight = target.model.embed_tokens.weight
    joined = drafters.mtp.join(functional.embedding(forced.roll(-1, 1), weight), hidden)
    causal = torch.ones(32, 32, dtype=torch.bool).tril()[None, None]
    past: list[tuple[torch.Tensor, torch.Tensor]] = []
    positions = torch.arange(32)[None]
    first = drafters.mtp.depth(joined, positions, past, causal)
    assert target.logits(first[0, 13]).argmax() == drafted[0, 0]
    joined = drafters.mtp.join(functional.embedding(forced.roll(-2, 1), weight), first)
    chain = torch.eye(32, dtype=torch.bool)[None, None]
    second = drafters.mtp.depth(joined, positions + 1, past, torch.cat((causal, chain), dim=-1))
    assert target.logits(second[0, 13]).argmax() == drafted[0, 1]


def test_accepted_samples_follow_the_law_of_the_target() -> None:
    torch.manual_seed(1)
    rows = 40_000
    logits = torch.tensor([[1.0, 0.2, -0.5, 0.0, 2.0], [0.3, 0.1, 0.9, -1.0, 0.0]]).expand(rows, 2, 5)
    law = logits[0, 0].softmax(-1)
    proposal = torch.tensor([0.5, 0.2, 0.2, 0.1, 0.0])
    for chances in (proposal.expand(rows, 1, 5), None):
        drafted = torch.multinomial(proposal, rows, replacement=True)[:, None] if chances is not None else torch.full(
            (rows, 1), 4)  # fmt: skip
        accepted, after = accept(Drafted(drafted, chances), logits, 1.0)
        first = torch.where(accepted == 1, drafted[:, 0], after)
        seen = torch.bincount(first, minlength=5) / rows
        assert (seen - law).abs().max() < 4 * 0.5 / rows**0.5


def test_files_hold_the_names_that_plugins_expect(tmp_path: Path) -> None:
    torch.manual_seed(2)
    drafters = Drafters(Geometry.read())
    save_drafters(drafters, tmp_path)
    again = Drafters(Geometry.read())
    load_drafters(again, tmp_path)
    assert all(
        torch.equal(value.bfloat16(), stored(again)[name].bfloat16()) for name, value in stored(drafters).items()
    )
    header = open_artifact(None, PluginRegistry.discover()).header
    resources = dict(header.resources) | {DRAFT_CONFIG: msgspec.json.encode(draft_config(Geometry.read()))}
    config = dict(header.config) | {"mtp_num_hidden_layers": 1}
    header = msgspec.structs.replace(header, resources=resources, config=config)
    drafter = dflash2.ninfer_spec_inventory(header, build_geometry(header, "bfloat16"))
    assert drafter is not None
    wanted = (*build_inventory(header), *drafter)
    shapes = {spec.name: spec.shape for spec in wanted if spec.group in ("mtp", "draft")}
    assert shapes == {name: tuple(value.shape) for name, value in stored(drafters).items()}
