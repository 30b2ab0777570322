"""A checkpoint's `config.json` as one checked value: every field that is missing or wrong is found at once.

Accepts text-only configs and vision-language ones (text fields under `text_config`), and rotary fields under
`rope_parameters`, under `rope_scaling` or flat, as published and re-saved checkpoints have them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import msgspec

from ninfer_core.api import ArtifactHeader, ArtifactInvalid
from ninfer_models.qwen_hybrid.fields import Fields

DENSE_TYPES = ("qwen3_5", "qwen3_5_text")
MOE_TYPES = ("qwen3_5_moe", "qwen3_5_moe_text")
MODEL_TYPES = DENSE_TYPES + MOE_TYPES
"""Values of `model_type`; published files of later versions keep that of the first."""

LayerKind = Literal["full_attention", "linear_attention"]
OutputGate = Literal["silu", "sigmoid"]

_OUTPUT_GATES: Mapping[object, OutputGate] = {None: "silu", "silu": "silu", "swish": "silu", "sigmoid": "sigmoid"}
_PUBLISHED_SECTION = (11, 11, 10)
_PUBLISHED_PAIRS = 32
_MOST_LAYERS = 1024
_MOST_EXPERTS = 4096
"""Ten times the largest published model: what bounds the inventory that a config can ask for."""


class Yarn(msgspec.Struct, frozen=True, kw_only=True):
    """Static context extension by YaRN (Peng et al., 2023): fields of `rope_parameters`."""

    factor: float
    original_positions: int
    beta_fast: float
    beta_slow: float
    attention_factor: float


class Rope(msgspec.Struct, frozen=True, kw_only=True):
    """Rotary positions on the first `2 * pairs` dimensions of a head; `section` is pairs per time, height, width."""

    theta: float
    pairs: int
    section: tuple[int, int, int]
    yarn: Yarn | None


class Experts(msgspec.Struct, frozen=True, kw_only=True):
    count: int
    per_token: int
    intermediate_size: int
    shared_intermediate_size: int


class VisionShape(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of the vision tower: what its tensors' shapes follow from."""

    depth: int
    hidden_size: int
    intermediate_size: int
    patch_size: int
    temporal_patch_size: int
    in_channels: int
    spatial_merge_size: int
    out_hidden_size: int
    position_embeddings: int


class QwenHybridConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the model is built from. Exactly one of `intermediate_size` (dense) and `experts` is set."""

    wrapped: bool
    hidden_size: int
    layer_kinds: tuple[LayerKind, ...]
    vocabulary_rows: int
    max_positions: int
    norm_epsilon: float
    tied_head: bool
    query_heads: int
    kv_heads: int
    head_dim: int
    rope: Rope
    key_heads: int
    key_dim: int
    value_heads: int
    value_dim: int
    conv_width: int
    output_gate: OutputGate
    intermediate_size: int | None
    experts: Experts | None
    mtp_layers: int
    vision: VisionShape | None

    @property
    def attention_layers(self) -> int:
        return self.layer_kinds.count("full_attention")

    @property
    def recurrent_layers(self) -> int:
        return self.layer_kinds.count("linear_attention")

    @property
    def conv_channels(self) -> int:
        """Columns that pass through the causal convolution: queries, keys and values."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim


def text_fields(config: Mapping[str, object]) -> Mapping[str, object]:
    """The part of `config.json` that describes the text model."""
    text = config.get("text_config")
    return text if isinstance(text, dict) else config


def is_ours(config: Mapping[str, object]) -> bool:
    """Whether `config.json` describes a model of this family."""
    return text_fields(config).get("model_type") in MODEL_TYPES


def parse_config(header: ArtifactHeader) -> QwenHybridConfig:
    """The header's config, checked. Raises ArtifactInvalid with a line for every field that is wrong."""
    problems: list[str] = []
    raw = text_fields(header.config)
    whole = Fields(header.config, "", problems)
    whole.table("text_config")
    text = whole if raw is header.config else Fields(raw, "text_config.", problems)
    _check_supported(text)
    _check_stop_ids(whole, text)
    hidden_size = text.size("hidden_size")
    head_dim = text.size("head_dim", default=256)
    config = QwenHybridConfig(
        wrapped=raw is not header.config,
        hidden_size=hidden_size,
        layer_kinds=_layer_kinds(text),
        vocabulary_rows=text.size("vocab_size"),
        max_positions=text.size("max_position_embeddings", default=32768),
        norm_epsilon=text.number("rms_norm_eps", default=1e-6, above=0.0),
        tied_head=_tied_head(header, whole, text),
        query_heads=text.size("num_attention_heads"),
        kv_heads=text.size("num_key_value_heads"),
        head_dim=head_dim,
        rope=_rope(text, head_dim, needs_section=raw is not header.config),
        key_heads=text.size("linear_num_key_heads"),
        key_dim=text.size("linear_key_head_dim"),
        value_heads=text.size("linear_num_value_heads"),
        value_dim=text.size("linear_value_head_dim"),
        conv_width=text.size("linear_conv_kernel_dim", default=4, least=2),
        output_gate=_output_gate(text),
        intermediate_size=None if _is_moe(raw) else text.size("intermediate_size"),
        experts=_experts(text) if _is_moe(raw) else None,
        mtp_layers=text.size("mtp_num_hidden_layers", default=0, least=0, most=_MOST_LAYERS),
        vision=_vision(whole, hidden_size),
    )
    text.divides("num_key_value_heads", config.kv_heads, "num_attention_heads", config.query_heads)
    text.divides("linear_num_key_heads", config.key_heads, "linear_num_value_heads", config.value_heads)
    if problems:
        raise ArtifactInvalid(header.source, problems)
    return config


def _is_moe(raw: Mapping[str, object]) -> bool:
    return raw.get("model_type") in MOE_TYPES


def _check_supported(text: Fields) -> None:
    if text.raw.get("model_type") not in MODEL_TYPES:
        text.wrong("model_type", f"one of {', '.join(MODEL_TYPES)}")
    text.must_equal("attn_output_gate", True)
    text.must_equal("attention_bias", False)
    text.must_equal("hidden_act", "silu")
    text.must_equal("mtp_use_dedicated_embeddings", False)
    if text.raw.get("mlp_only_layers"):
        text.wrong("mlp_only_layers", "empty: models that mix dense and expert layers are not supported")


def _check_stop_ids(whole: Fields, text: Fields) -> None:
    """Generation takes them from elsewhere; one that is no id says that the file is damaged."""
    for fields in {id(place): place for place in (whole, text)}.values():
        fields.token_ids("eos_token_id")


def _layer_kinds(text: Fields) -> tuple[LayerKind, ...]:
    layers = text.size("num_hidden_layers", most=_MOST_LAYERS)
    listed = text.raw.get("layer_types")
    if listed is None:
        interval = text.size("full_attention_interval", default=4)
        return tuple("linear_attention" if (i + 1) % interval else "full_attention" for i in range(layers))
    kinds: list[LayerKind] = []
    for kind in listed if isinstance(listed, list) else ():
        if kind == "full_attention":
            kinds.append("full_attention")
        elif kind == "linear_attention":
            kinds.append("linear_attention")
    if not isinstance(listed, list) or len(kinds) != len(listed) or len(kinds) != layers:
        text.wrong("layer_types", f"a list of {layers} times full_attention or linear_attention")
    return tuple(kinds)


def _tied_head(header: ArtifactHeader, whole: Fields, text: Fields) -> bool:
    """Where the two places disagree, a separate head among the tensors decides."""
    places = (whole,) if whole is text else (whole, text)
    said = {fields.flag("tie_word_embeddings") for fields in places} - {None}
    if len(said) == 2:
        return not any(tensor.name.endswith("lm_head.weight") for tensor in header.tensors)
    return said == {True}


def _output_gate(text: Fields) -> OutputGate:
    """Activation of the Gated DeltaNet output gate: `output_gate_type`, absent meaning silu."""
    value = text.raw.get("output_gate_type")
    if isinstance(value, str | None) and value in _OUTPUT_GATES:
        return _OUTPUT_GATES[value]
    text.wrong("output_gate_type", "silu, swish or sigmoid")
    return "silu"


def _experts(text: Fields) -> Experts:
    experts = Experts(
        count=text.size("num_experts", most=_MOST_EXPERTS),
        per_token=text.size("num_experts_per_tok"),
        intermediate_size=text.size("moe_intermediate_size"),
        shared_intermediate_size=text.size("shared_expert_intermediate_size"),
    )
    if experts.per_token > experts.count:
        text.wrong("num_experts_per_tok", f"at most num_experts = {experts.count}")
    return experts


def _rope(text: Fields, head_dim: int, *, needs_section: bool) -> Rope:
    merged = dict(text.raw)
    for place in ("rope_scaling", "rope_parameters"):
        merged.update(text.table(place) or {})
    rope = Fields(merged, text.prefix + "rope_parameters.", text.problems)
    pairs = round(head_dim * rope.number("partial_rotary_factor", default=0.25, above=0.0, most=1.0)) // 2
    kind = merged.get("rope_type", merged.get("type", "default"))
    if kind not in ("default", "mrope", "yarn"):
        rope.wrong("rope_type", "default or yarn")
    rope.must_equal("mrope_interleaved", True)
    return Rope(
        theta=rope.number("rope_theta", default=1e7, above=1.0),
        pairs=pairs,
        section=_section(rope, pairs, needed=needs_section),
        yarn=_yarn(rope) if kind == "yarn" else None,
    )


def _section(rope: Fields, pairs: int, *, needed: bool) -> tuple[int, int, int]:
    value = rope.raw.get("mrope_section")
    if value is None and pairs == _PUBLISHED_PAIRS:
        return _PUBLISHED_SECTION
    if value is None and not needed:
        return (pairs, 0, 0)  # text positions agree on all axes, so that any split is the same
    if (
        isinstance(value, list)
        and len(value) == 3
        and all(isinstance(n, int) and n >= 0 for n in value)
        and sum(value) == pairs
    ):
        return (value[0], value[1], value[2])
    rope.wrong("mrope_section", f"three counts with the sum {pairs}, half of the rotated dimensions")
    return (pairs, 0, 0)


def _yarn(rope: Fields) -> Yarn:
    # Published configs write null for what the scheme itself defines.
    given = {name: value for name, value in rope.raw.items() if value is not None}
    rope = Fields(given, rope.prefix, rope.problems)
    factor = rope.number("factor", above=1.0)
    return Yarn(
        factor=factor,
        original_positions=rope.size("original_max_position_embeddings"),
        beta_fast=rope.number("beta_fast", default=32.0, above=0.0),
        beta_slow=rope.number("beta_slow", default=1.0, above=0.0),
        attention_factor=rope.number("attention_factor", default=0.1 * math.log(factor) + 1.0, above=0.0),
    )


def _vision(whole: Fields, hidden_size: int) -> VisionShape | None:
    raw = whole.table("vision_config")
    if raw is None:
        return None
    vision = Fields(raw, "vision_config.", whole.problems)
    shape = VisionShape(
        depth=vision.size("depth", most=_MOST_LAYERS),
        hidden_size=vision.size("hidden_size"),
        intermediate_size=vision.size("intermediate_size"),
        patch_size=vision.size("patch_size", default=16),
        temporal_patch_size=vision.size("temporal_patch_size", default=2),
        in_channels=vision.size("in_channels", default=3),
        spatial_merge_size=vision.size("spatial_merge_size", default=2),
        out_hidden_size=vision.size("out_hidden_size"),
        position_embeddings=vision.size("num_position_embeddings", default=2304),
    )
    if shape.out_hidden_size != hidden_size:
        vision.wrong("out_hidden_size", f"the text model's hidden_size {hidden_size}")
    if raw.get("deepstack_visual_indexes"):
        vision.wrong("deepstack_visual_indexes", "empty: this family injects no intermediate features")
    return shape
