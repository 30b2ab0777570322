"""Shapes of the family: what a sequence carries, and which token ids exist. No torch."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ninfer_core.api import ArtifactHeader, ArtifactInvalid, AttentionGeometry, Geometry, StateArray
from ninfer_models.qwen_hybrid.config import QwenHybridConfig, parse_config

CONV = "conv"
"""State: the last columns before the convolution, oldest first."""
RECURRENT = "recurrent"
"""State: the delta-rule memory of every value head, always float32 (checkpoint field `mamba_ssm_dtype`)."""
COLUMN, KEY, UPDATE, DECAY = "column", "key", "update", "decay"
"""Records of one decode column: the column before the convolution, k, u and g (speculative.md section 5)."""

_PUBLISHED_DOMAINS: Mapping[int, int] = {248320: 248077}
"""Token ids that exist in the published vocabulary, by its padded number of rows."""


def build_geometry(header: ArtifactHeader, activation_dtype: str) -> Geometry:
    """The header's geometry. Raises ArtifactInvalid."""
    config = parse_config(header)
    return Geometry(
        hidden_size=config.hidden_size,
        layers=len(config.layer_kinds),
        vocabulary_rows=config.vocabulary_rows,
        token_domain=_token_domain(header, config.vocabulary_rows),
        max_positions=config.max_positions,
        attention=AttentionGeometry(
            layers=config.attention_layers,
            query_heads=config.query_heads,
            kv_heads=config.kv_heads,
            head_dim=config.head_dim,
        ),
        state=_state(config, activation_dtype),
        records=_records(config, activation_dtype),
    )


def _state(config: QwenHybridConfig, activation_dtype: str) -> tuple[StateArray, ...]:
    layers = config.recurrent_layers
    memory = (config.value_heads, config.key_dim, config.value_dim)
    return (
        StateArray(
            name=CONV, layers=layers, shape=(config.conv_width - 1, config.conv_channels), dtype=activation_dtype
        ),
        StateArray(name=RECURRENT, layers=layers, shape=memory, dtype="float32"),
    )


def _records(config: QwenHybridConfig, activation_dtype: str) -> tuple[StateArray, ...]:
    layers = config.recurrent_layers
    return (
        StateArray(name=COLUMN, layers=layers, shape=(config.conv_channels,), dtype=activation_dtype),
        StateArray(name=KEY, layers=layers, shape=(config.key_heads, config.key_dim), dtype="float32"),
        StateArray(name=UPDATE, layers=layers, shape=(config.value_heads, config.value_dim), dtype="float32"),
        StateArray(name=DECAY, layers=layers, shape=(config.value_heads,), dtype="float32"),
    )


class _AddedToken(msgspec.Struct):
    id: int


class _Vocabulary(msgspec.Struct):
    vocab: dict[str, int] = {}


class _Tokenizer(msgspec.Struct):
    model: _Vocabulary | None = None
    added_tokens: list[_AddedToken] = []


class _TokenizerConfig(msgspec.Struct):
    added_tokens_decoder: dict[str, object] = {}


def _token_domain(header: ArtifactHeader, vocabulary_rows: int) -> int:
    """One more than the largest id the tokenizer can produce or print; rows past it are padding.

    Without a vocabulary (none is there, or it is built on demand) it is the published one, known by its rows.
    """
    try:
        tokenizer = msgspec.json.decode(header.resources.get("tokenizer.json", b"{}"), type=_Tokenizer)
        if tokenizer.model is None:
            return _PUBLISHED_DOMAINS.get(vocabulary_rows, vocabulary_rows)
        more = msgspec.json.decode(header.resources.get("tokenizer_config.json", b"{}"), type=_TokenizerConfig)
        ids = [*tokenizer.model.vocab.values(), *(token.id for token in tokenizer.added_tokens)]
        domain = 1 + max([*ids, *(int(number) for number in more.added_tokens_decoder)], default=-1)
    except (msgspec.MsgspecError, ValueError) as error:
        raise ArtifactInvalid(header.source, [f"the tokenizer files cannot be read: {error}"]) from error
    if not 0 < domain <= vocabulary_rows:
        raise ArtifactInvalid(
            header.source,
            [f"the tokenizer has ids up to {domain - 1}, but the embedding has {vocabulary_rows} rows (vocab_size)"],
        )
    return domain
