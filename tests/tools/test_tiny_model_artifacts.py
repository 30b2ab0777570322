"""The shipped files: their sizes, what is in them, that they are what the tool exports, and that the drafters draft."""

from __future__ import annotations

import json

import pytest
from ninfer_models.qwen_hybrid.inventory import build_inventory
from ninfer_models.qwen_hybrid.reduced_head import REDUCED_HEAD
from safetensors.torch import load_file

from ninfer_core.api import DRAFT_CONFIG
from ninfer_core.artifact import embedded_artifact, open_artifact
from ninfer_core.artifact.report import report_artifact
from ninfer_core.plugins import PluginRegistry
from tools.tiny_model import draft_measure
from tools.tiny_model.draft_files import DRAFT, MTP, Drafters, draft_config
from tools.tiny_model.draft_measure import draft_block, draft_mtp, tokens_per_round
from tools.tiny_model.export import FORCED, SIDE_FILES
from tools.tiny_model.geometry import Geometry
from tools.tiny_model.heldout import held_out_items
from tools.tiny_model.model import TinyModel
from tools.tiny_model.template import ASSETS, load_template, render
from tools.tiny_model.tokenizer import id_of, load

MOST_BYTES = {"ninfer-tiny": 20_000_000, "ninfer-tiny-moe": 4_000_000}
GROUPS = {"ninfer-tiny": {"text", "mtp", "draft_head"}, "ninfer-tiny-moe": {"text"}}


@pytest.mark.parametrize("name", MOST_BYTES)
def test_a_file_is_small_and_complete_and_made_from_the_assets(name: str) -> None:
    assert embedded_artifact(name).stat().st_size <= MOST_BYTES[name]
    header = open_artifact(f"embedded:{name}", PluginRegistry.discover()).header
    inventory = build_inventory(header)
    assert {spec.group for spec in inventory} == GROUPS[name] | (
        {"mtp"} if "mtp_num_hidden_layers" in header.config else set()
    )
    assert (DRAFT_CONFIG in header.resources) == (name == "ninfer-tiny")
    assert report_artifact(f"embedded:{name}", PluginRegistry.discover()).problems == ()
    config = ASSETS / ("config.json" if name == "ninfer-tiny" else "moe/config.json")
    assert header.resources["config.json"] == config.read_bytes()
    assert all(header.resources[file] == (ASSETS / file).read_bytes() for file in SIDE_FILES)


def test_the_drafter_describes_itself_as_it_was_trained() -> None:
    header = open_artifact(None, PluginRegistry.discover()).header
    assert json.loads(header.resources[DRAFT_CONFIG]) == json.loads(json.dumps(draft_config(Geometry.read())))


def test_the_reduced_head_can_say_what_ends_and_opens_parts_of_an_answer() -> None:
    ids = load_file(embedded_artifact())[REDUCED_HEAD].tolist()
    tokenizer = load()
    assert len(set(ids)) == len(ids) == 2048
    assert {id_of(tokenizer, token) for token in FORCED} <= set(ids)


@pytest.mark.parametrize(("name", "drafts", "least"), [("mtp", 3, 2.5), ("dflash", 7, 3.0), ("dflash2", 7, 3.0)])
def test_a_drafter_says_most_of_what_the_target_says(
    name: str, drafts: int, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draft_measure, "MOST_REPLY", 32)
    stored = {key: value.float() for key, value in load_file(embedded_artifact()).items() if value.is_floating_point()}
    target = TinyModel(Geometry.read())
    target.load_state_dict({key: stored[key] for key in target.state_dict()})
    drafters = Drafters(target.geometry)
    part, prefix = getattr(drafters, name), MTP if name == "mtp" else DRAFT
    part.load_state_dict({key: stored[prefix + key] for key in part.state_dict()})
    tokenizer, template = load(), load_template()
    items = [item for item in held_out_items(4, "xhigh") if item.skill == "units"]
    texts = (render(template, item.messages, item.options, prompt=True) for item in items)
    prompts = sorted((tokenizer.encode(text).ids for text in texts), key=len)[:2]
    drafter = draft_mtp(part) if name == "mtp" else draft_block(part)
    stop = id_of(tokenizer, "<|im_end|>")
    assert tokens_per_round(target, drafter, prompts, drafts=drafts, temperature=0.0, stop=stop) >= least
