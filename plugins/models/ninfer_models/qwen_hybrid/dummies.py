"""Headers of two published shapes for `dummy:NAME`: exact configs and inventories, weights made on the device.

Beside the text model they have its next-token head, a published drafter and a reduced head, which are made when they
are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ninfer_core.api import DRAFT_CONFIG, ArtifactHeader, ArtifactIdentity, TensorSpec
from ninfer_models.qwen_hybrid.inventory import build_inventory
from ninfer_models.qwen_hybrid.reduced_head import REDUCED_HEAD

_COMMON: Mapping[str, object] = {
    "vocab_size": 248320,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "attention_bias": False,
    "attn_output_gate": True,
    "head_dim": 256,
    "linear_num_key_heads": 16,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "mamba_ssm_dtype": "float32",
    "full_attention_interval": 4,
    "max_position_embeddings": 262144,
    "tie_word_embeddings": False,
    "mtp_num_hidden_layers": 1,
    "output_gate_type": "swish",
    "dtype": "bfloat16",
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000000,
        "partial_rotary_factor": 0.25,
        "mrope_section": [11, 11, 10],
        "mrope_interleaved": True,
    },
}

_DENSE_27B: Mapping[str, object] = {
    **_COMMON,
    "architectures": ["Qwen3_5ForCausalLM"],
    "model_type": "qwen3_5_text",
    "hidden_size": 5120,
    "intermediate_size": 17408,
    "num_hidden_layers": 64,
    "num_attention_heads": 24,
    "num_key_value_heads": 4,
    "linear_num_value_heads": 48,
}

_MOE_35B_A3B: Mapping[str, object] = {
    **_COMMON,
    "architectures": ["Qwen3_5MoeForCausalLM"],
    "model_type": "qwen3_5_moe_text",
    "hidden_size": 2048,
    "num_hidden_layers": 40,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "linear_num_value_heads": 32,
    "num_experts": 256,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
}

_DRAFTER: Mapping[str, object] = {
    "model_type": "qwen3",
    "vocab_size": 248320,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "attention_bias": False,
    "is_causal": False,
    "max_position_embeddings": 262144,
    "use_sliding_window": True,
    "rope_parameters": {"rope_theta": 10000000, "rope_type": "default"},
    "tie_word_embeddings": False,
    "dtype": "bfloat16",
}

_DFLASH2_27B: Mapping[str, object] = {
    **_DRAFTER,
    "architectures": ["DFlash2DraftModel"],
    "hidden_size": 5120,
    "intermediate_size": 17408,
    "num_hidden_layers": 5,
    "num_target_layers": 64,
    "layer_types": ["sliding_attention"] * 5,
    "max_window_layers": 5,
    "sliding_window": 2048,
    "dflash_config": {
        "block_size": 8,
        "target_layer_ids": [5, 19, 33, 47, 61],
        "mask_token_id": 248070,
        "conv_kernel_size": 2,
        "conv_group_size": 16,
        "selector_rank": 256,
        "selector_top_k": 16,
    },
}

_DFLASH_35B: Mapping[str, object] = {
    **_DRAFTER,
    "architectures": ["DFlashDraftModel"],
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 6,
    "num_target_layers": 40,
    "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
    "max_window_layers": 5,
    "sliding_window": 4096,
    "dflash_config": {
        "block_size": 16,
        "target_layer_ids": [1, 6, 11, 16, 22, 27, 32, 37],
        "mask_token_id": 248077,
    },
}

_MODELS: Mapping[str, tuple[Mapping[str, object], Mapping[str, object]]] = {
    "qwen3.8-27b": (_DENSE_27B, _DFLASH2_27B),
    "qwen3.6-35b-a3b": (_MOE_35B_A3B, _DFLASH_35B),
}
"""Configs of the target and of its drafter (docs/speculation.md, "Configs")."""

_REDUCED_ROWS = 131072
"""About half of the vocabulary, which a reduced head hardly ever misses with (docs/speculation.md, "The reduced
head")."""


def dummy_headers(resources: Mapping[str, bytes], notes: tuple[str, ...] = ()) -> dict[str, ArtifactHeader]:
    """Headers by dummy name, all with these frontend resources and notes."""
    return {name: _header(name, *configs, resources, notes) for name, configs in _MODELS.items()}


def _header(
    name: str,
    config: Mapping[str, object],
    drafter: Mapping[str, object],
    resources: Mapping[str, bytes],
    notes: tuple[str, ...],
) -> ArtifactHeader:
    configs = {"config.json": msgspec.json.encode(config), DRAFT_CONFIG: msgspec.json.encode(drafter)}
    header = ArtifactHeader(
        source=f"dummy:{name}",
        identity=ArtifactIdentity(model_id=name, weights_id="bf16", family="qwen-hybrid", format_version=1),
        config=dict(config),
        resources={**configs, **resources},
        tensors=(TensorSpec(name=REDUCED_HEAD, shape=(_REDUCED_ROWS,), dtype="int32"),),
        notes=notes,
    )
    return msgspec.structs.replace(header, tensors=build_inventory(header))
