"""Headers of two published shapes for `dummy:NAME`: exact configs and inventories, weights made on the device."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ninfer_core.api import ArtifactHeader, ArtifactIdentity
from ninfer_models.qwen_hybrid.inventory import build_inventory

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

_CONFIGS: Mapping[str, Mapping[str, object]] = {"qwen3.8-27b": _DENSE_27B, "qwen3.6-35b-a3b": _MOE_35B_A3B}


def dummy_headers(resources: Mapping[str, bytes], notes: tuple[str, ...] = ()) -> dict[str, ArtifactHeader]:
    """Headers by dummy name, all with these frontend resources and notes."""
    return {name: _header(name, config, resources, notes) for name, config in _CONFIGS.items()}


def _header(
    name: str, config: Mapping[str, object], resources: Mapping[str, bytes], notes: tuple[str, ...]
) -> ArtifactHeader:
    header = ArtifactHeader(
        source=f"dummy:{name}",
        identity=ArtifactIdentity(model_id=name, weights_id="bf16", family="qwen-hybrid", format_version=1),
        config=dict(config),
        resources={"config.json": msgspec.json.encode(config), **resources},
        tensors=(),
        notes=notes,
    )
    return msgspec.structs.replace(header, tensors=build_inventory(header))
