"""Directories as transformers writes them: the dense and the MoE model, text-only and inside the vision model."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from ninfer_models.qwen_hybrid.inventory import build_inventory
from safetensors.torch import load_file, save_file

from ninfer_core.artifact import inventory_problems, open_artifact
from ninfer_core.artifact.conversion import convert_directory
from ninfer_core.artifact.report import report_artifact
from ninfer_core.plugins import PluginRegistry

ASSETS = Path(__file__).parents[2] / "tools" / "tiny_model" / "assets"
FRONTEND = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json")
TEXT = {
    "vocab_size": 4096,
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "linear_num_key_heads": 1,
    "linear_key_head_dim": 16,
    "linear_num_value_heads": 2,
    "linear_value_head_dim": 16,
    "max_position_embeddings": 512,
    "mtp_num_hidden_layers": 1,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000000,
        "partial_rotary_factor": 0.5,
        "mrope_interleaved": True,
        "mrope_section": [3, 3, 2],
    },
}
DENSE = {"intermediate_size": 48}
MOE = {
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 24,
    "num_experts": 3,
    "num_experts_per_tok": 2,
}
VISION = {
    "depth": 1,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_heads": 2,
    "patch_size": 4,
    "out_hidden_size": 32,
    "num_position_embeddings": 36,
}


def save(directory: Path, *, moe: bool, wrapped: bool, **fields: Any) -> Path:
    import transformers

    name = "Qwen3_5Moe" if moe else "Qwen3_5"
    text = getattr(transformers, f"{name}TextConfig")(**TEXT, **(MOE if moe else DENSE), **fields)
    if wrapped:
        config = getattr(transformers, f"{name}Config")(text_config=text.to_dict(), vision_config=VISION, **fields)
        model = getattr(transformers, f"{name}ForConditionalGeneration")(config)
    else:
        model = getattr(transformers, f"{name}ForCausalLM")(text)
    model.to(torch.bfloat16).save_pretrained(directory, max_shard_size="200KB")
    for file in FRONTEND:
        shutil.copyfile(ASSETS / file, directory / file)
    return directory


@pytest.mark.parametrize("moe", [False, True])
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_saved_model_is_complete_and_converts_to_the_same_tensors(tmp_path: Path, moe: bool, wrapped: bool) -> None:
    registry = PluginRegistry.discover()
    directory = save(tmp_path / "tiny", moe=moe, wrapped=wrapped)
    shards = sorted(directory.glob("*.safetensors"))
    assert len(shards) > 1
    header = open_artifact(str(directory), registry).header
    names = {spec.name for spec in header.tensors}
    assert ("model.language_model.norm.weight" if wrapped else "model.norm.weight") in names
    assert any(".experts.2.up_proj.weight" in name for name in names) == moe
    groups = {"text", "vision"} if wrapped else {"text"}
    assert inventory_problems(header, build_inventory(header), groups) == []
    absent = inventory_problems(header, build_inventory(header), {"mtp"})
    assert absent and all(line.startswith("missing: mtp.") for line in absent)
    done = convert_directory(str(directory), tmp_path / "tiny.ninfer", registry)
    assert done.identity.family == "qwen-hybrid" and done.identity.weights_id == "bf16"
    saved = {name: tensor for shard in shards for name, tensor in load_file(shard).items()}
    with open_artifact(str(done.path), registry).open_weights() as weights:
        for name, tensor in saved.items():
            assert torch.equal(weights.read(name, torch.device("cpu")), tensor)
    assert report_artifact(str(done.path), registry).problems == ()


def test_a_tied_head_is_absent_and_that_is_right(tmp_path: Path) -> None:
    registry = PluginRegistry.discover()
    header = open_artifact(str(save(tmp_path, moe=False, wrapped=False, tie_word_embeddings=True)), registry).header
    assert "lm_head.weight" not in {spec.name for spec in header.tensors}
    assert inventory_problems(header, build_inventory(header), {"text"}) == []


def test_experts_saved_as_one_tensor_are_accepted_too(tmp_path: Path) -> None:
    directory = save(tmp_path, moe=True, wrapped=False)
    tensors = {name: tensor for shard in directory.glob("*.safetensors") for name, tensor in load_file(shard).items()}
    for path in [*directory.glob("*.safetensors"), directory / "model.safetensors.index.json"]:
        path.unlink()
    for layer in range(4):
        base = f"model.layers.{layer}.mlp.experts."
        parts = {
            kind: [tensors.pop(f"{base}{expert}.{kind}_proj.weight") for expert in range(3)]
            for kind in ("gate", "up", "down")
        }
        tensors[base + "gate_up_proj"] = torch.stack(
            [torch.cat(pair) for pair in zip(parts["gate"], parts["up"], strict=True)]
        )
        tensors[base + "down_proj"] = torch.stack(parts["down"])
    save_file(tensors, directory / "model.safetensors")
    header = open_artifact(str(directory), PluginRegistry.discover()).header
    assert inventory_problems(header, build_inventory(header), {"text"}) == []
