"""Tiny random checkpoints made with transformers, an implementation that shares no code with ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from ninfer_models import qwen_hybrid
from ninfer_models.qwen_hybrid.geometry import build_geometry

from ninfer_core.api import BuildShape
from ninfer_core.artifact import open_artifact
from ninfer_core.plugins import PluginRegistry
from ninfer_core.testing.family import FamilySubject

DECODE_COLUMNS = 3

TEXT = {
    "vocab_size": 512,
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 16,
    "linear_num_value_heads": 6,
    "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 4,
    "full_attention_interval": 4,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "attn_output_gate": True,
    "mtp_num_hidden_layers": 0,
    "output_gate_type": "swish",
    "mamba_ssm_dtype": "float32",
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000000,
        "partial_rotary_factor": 0.5,
        "mrope_interleaved": True,
        "mrope_section": [3, 3, 2],
    },
}
DENSE = {"intermediate_size": 160}
MOE = {
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 48,
    "num_experts": 8,
    "num_experts_per_tok": 3,
}
VISION = {
    "depth": 2,
    "hidden_size": 48,
    "intermediate_size": 96,
    "num_heads": 4,
    "patch_size": 4,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "out_hidden_size": 64,
    "num_position_embeddings": 36,
}
SPECIAL = {"image_token_id": 500, "video_token_id": 501, "vision_start_token_id": 502, "vision_end_token_id": 503}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A saved directory, and the transformers model it was saved from, in float32."""

    path: Path
    reference: Any

    def logits(self, tokens: Sequence[int]) -> torch.Tensor:
        with torch.inference_mode():
            return self.reference(input_ids=torch.tensor([list(tokens)]), use_cache=False).logits[0]

    def subject(self) -> FamilySubject:
        handle = open_artifact(str(self.path), PluginRegistry.discover())
        shape = BuildShape(
            prefill_tokens=512,
            decode_rows=8,
            decode_columns=DECODE_COLUMNS,
            max_context=512,
            activation_dtype="float32",
        )
        with handle.open_weights() as weights:
            model = qwen_hybrid.ninfer_family_build(handle.header, shape, weights, torch.device("cpu"))
        geometry = build_geometry(handle.header, "float32")
        return FamilySubject(model, geometry, self.logits, DECODE_COLUMNS)


MakeCheckpoint = Callable[..., Checkpoint]


@pytest.fixture(scope="session")
def make_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> MakeCheckpoint:
    """make_checkpoint(moe=..., wrapped=..., **text fields): wrapped is the vision-language class."""

    def make(
        *, moe: bool = False, wrapped: bool = False, dtype: torch.dtype = torch.float32, **fields: Any
    ) -> Checkpoint:
        text = {**TEXT, **(MOE if moe else DENSE), **fields}
        torch.manual_seed(7)
        reference = _reference(text, moe=moe, wrapped=wrapped)
        _randomise(reference)
        path = tmp_path_factory.mktemp("checkpoint")
        reference.to(dtype).save_pretrained(path)
        return Checkpoint(path, reference.float().eval())

    return make


def _reference(text: dict[str, Any], *, moe: bool, wrapped: bool) -> Any:
    import transformers

    name = "Qwen3_5Moe" if moe else "Qwen3_5"
    text_config = getattr(transformers, f"{name}TextConfig")(**text)
    text_config._attn_implementation = "eager"
    if not wrapped:
        return getattr(transformers, f"{name}ForCausalLM")(text_config)
    whole = {"text_config": text_config.to_dict(), "vision_config": VISION, **SPECIAL, "tie_word_embeddings": False}
    config = getattr(transformers, f"{name}Config")(**whole)
    config._attn_implementation = "eager"
    return getattr(transformers, f"{name}ForConditionalGeneration")(config)


def _randomise(model: torch.nn.Module) -> None:
    """Matrices N(0, 1 / fan in), everything else 0.1 N(0, 1) beside where it starts: identities hide mistakes."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
            elif "embed_tokens" in name:
                parameter.normal_()
            else:
                fan_in = parameter[0].numel() if parameter.dim() != 3 or "conv1d" in name else parameter.shape[-1]
                parameter.normal_(std=fan_in**-0.5)
