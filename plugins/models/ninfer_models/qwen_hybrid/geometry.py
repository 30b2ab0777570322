"""Shapes of the family: what a sequence carries, and what a decode column leaves. No torch."""

from __future__ import annotations

from ninfer_core.api import ArtifactHeader, AttentionGeometry, Geometry, StateArray
from ninfer_models.qwen_hybrid.config import QwenHybridConfig, parse_config

RECURRENT = "recurrent"
"""State: the delta-rule memory of every value head, always float32 (checkpoint field `mamba_ssm_dtype`)."""
COLUMN, KEY, UPDATE, DECAY = "column", "key", "update", "decay"
"""Records of one column: the column before the convolution, of which the next ones look at the last few; k, u and g
(docs/speculation.md, "The recurrent state")."""


def build_geometry(header: ArtifactHeader, activation_dtype: str) -> Geometry:
    """The header's geometry. Raises ArtifactInvalid."""
    config = parse_config(header)
    return Geometry(
        hidden_size=config.hidden_size,
        layers=len(config.layer_kinds),
        vocabulary_rows=config.vocabulary_rows,
        max_positions=config.max_positions,
        attention=AttentionGeometry(
            layers=config.attention_layers,
            query_heads=config.query_heads,
            kv_heads=config.kv_heads,
            head_dim=config.head_dim,
        ),
        state=_state(config),
        records=_records(config, activation_dtype),
    )


def _state(config: QwenHybridConfig) -> tuple[StateArray, ...]:
    memory = (config.value_heads, config.key_dim, config.value_dim)
    return (StateArray(name=RECURRENT, layers=config.recurrent_layers, shape=memory, dtype="float32"),)


def _records(config: QwenHybridConfig, activation_dtype: str) -> tuple[StateArray, ...]:
    layers = config.recurrent_layers
    return (
        StateArray(
            name=COLUMN,
            layers=layers,
            shape=(config.conv_channels,),
            dtype=activation_dtype,
            kept=config.conv_width - 1,
        ),
        StateArray(name=KEY, layers=layers, shape=(config.key_heads, config.key_dim), dtype="float32"),
        StateArray(name=UPDATE, layers=layers, shape=(config.value_heads, config.value_dim), dtype="float32"),
        StateArray(name=DECAY, layers=layers, shape=(config.value_heads,), dtype="float32"),
    )
