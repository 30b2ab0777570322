"""Every tensor of a checkpoint by name, shape and feature group, under the naming this artifact uses.

Namings differ in the prefix of the text model and in whether experts are fused; both are read off the artifact's
own tensor names, so that what is missing is reported under the name its author would expect. Projections can be stored
in any form that `ninfer_core.api.stored_matrix` knows; everything else is plain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from ninfer_core.api import ArtifactHeader, ArtifactInvalid, StoredMatrix, TensorSpec, find_matrix
from ninfer_models.qwen_hybrid.config import Experts, QwenHybridConfig, VisionShape, parse_config
from ninfer_models.qwen_hybrid.reduced_head import reduced_head

STORED_DTYPES = frozenset({"float32", "float16", "bfloat16"})
_TEXT_PREFIXES = ("model.language_model.", "language_model.model.", "model.")
_HEADS = ("lm_head.weight", "language_model.lm_head.weight")
_VISION_PREFIXES = ("model.visual.", "visual.")
MTP_PREFIX = "mtp."

_PROJECTIONS = tuple(
    f".{module}.weight"
    for module in (
        *(f"self_attn.{name}_proj" for name in "qkvo"),
        *(f"linear_attn.{name}" for name in ("in_proj_qkv", "in_proj_z", "out_proj")),
        *(f"{name}_proj" for name in ("gate", "up", "down")),
    )
)
_FUSED_EXPERTS = (".mlp.experts.gate_up_proj", ".mlp.experts.down_proj")
_GATES = (".linear_attn.in_proj_b.weight", ".linear_attn.in_proj_a.weight")
_CACHE_SCALES = (".self_attn.k_scale", ".self_attn.v_scale")
"""Of keys and values that other servers keep in 8 bits, where a checkpoint has them beside the projections instead of
below them. Not read: a KV format here scales what it stores."""
_MTP_JOINT = f"{MTP_PREFIX}fc.weight"
_MOST_PROBLEMS = 8

Shapes = Iterator[tuple[str, tuple[int, ...]]]


class Naming:
    """Where this artifact keeps things."""

    def __init__(self, header: ArtifactHeader, config: QwenHybridConfig) -> None:
        self.stored = {tensor.name: tensor for tensor in header.tensors}
        """What the artifact holds, by name."""
        self._names = _plain_names(self.stored)
        default = _TEXT_PREFIXES[0] if config.wrapped else _TEXT_PREFIXES[-1]
        self.text = self._first([p for p in _TEXT_PREFIXES if p + "embed_tokens.weight" in self._names], default)
        self.head = self._first([name for name in _HEADS if name in self._names], _HEADS[0])
        self.vision = self._first(
            [p for p in _VISION_PREFIXES if p + "pos_embed.weight" in self._names], "model.visual."
        )
        self.has_head = self.head in self._names

    def layer(self, index: int) -> str:
        return f"{self.text}layers.{index}."

    def fused_experts(self, layer: str) -> bool:
        """Whether the experts of this layer are one tensor each way; so taken as well when there are none."""
        return f"{layer}mlp.experts.0.gate_proj.weight" not in self._names

    @staticmethod
    def _first(found: list[str], default: str) -> str:
        return found[0] if found else default


def build_inventory(header: ArtifactHeader) -> tuple[TensorSpec, ...]:
    """All tensors this config has a use for. Raises ArtifactInvalid where the config itself is wrong."""
    config = parse_config(header)
    naming = Naming(header, config)
    problems: list[str] = []
    groups: list[tuple[str, Shapes]] = [("text", _text(config, naming))]
    if config.mtp_layers:
        groups.append(("mtp", _mtp(config, naming)))
    if config.vision is not None:
        groups.append(("vision", _vision(config.vision, naming.vision)))
    inventory: list[TensorSpec] = []
    for group, shapes in groups:
        for name, shape in shapes:
            if is_matrix(name, naming):
                inventory.extend(find_matrix(naming.stored, name, shape, group, problems).tensors)
            else:
                dtype = _dtype(naming.stored, name)
                inventory.append(TensorSpec(name=name, shape=shape, dtype=dtype, group=group))
    scales = [spec for name, spec in naming.stored.items() if name.endswith(_CACHE_SCALES)]
    inventory.extend(
        msgspec.structs.replace(spec, group="text") for spec in scales if spec.name.startswith(naming.text)
    )
    for name, shape in reduced_head(naming.stored):
        inventory.append(TensorSpec(name=name, shape=shape, dtype="int32", group="draft_head"))
    if problems:
        raise ArtifactInvalid(header.source, _first_of(problems))
    return tuple(inventory)


def build_matrices(header: ArtifactHeader) -> tuple[str, ...]:
    """Names of the plain matrices that we encode when asked to: what many numbers go through. The gates of the delta
    rule stay as they are, as in published checkpoints: little of the model, and all of its memory hangs on them."""
    config = parse_config(header)
    naming = Naming(header, config)
    groups = [_text(config, naming)] + ([_mtp(config, naming)] if config.mtp_layers else [])
    return tuple(
        name
        for shapes in groups
        for name, _ in shapes
        if is_matrix(name, naming) and not name.endswith(_GATES) and name in naming.stored
    )


def is_matrix(name: str, naming: Naming) -> bool:
    """Whether the tensor that a plain checkpoint calls `name` may be stored in codes."""
    return name.endswith((*_PROJECTIONS, *_GATES, *_FUSED_EXPERTS)) or name in (naming.head, _MTP_JOINT)


def stored_matrix(naming: Naming, name: str, shape: tuple[int, ...]) -> StoredMatrix:
    """The form that `build_inventory` has found it in."""
    return find_matrix(naming.stored, name, shape, "text", [])


def _plain_names(stored: Mapping[str, TensorSpec]) -> frozenset[str]:
    """The names as a plain checkpoint has them."""
    return frozenset(name.removesuffix("_packed") for name in stored)


def _first_of(problems: list[str]) -> list[str]:
    left = len(problems) - _MOST_PROBLEMS
    return problems if left <= 0 else [*problems[:_MOST_PROBLEMS], f"and {left} more matrices in forms not read"]


def _dtype(stored: Mapping[str, TensorSpec], name: str) -> str:
    """The dtype the artifact has it in, as long as that is one we read."""
    dtype = stored[name].dtype if name in stored else "bfloat16"
    return dtype if dtype in STORED_DTYPES else "bfloat16"


def _text(config: QwenHybridConfig, naming: Naming) -> Shapes:
    hidden, rows = config.hidden_size, config.vocabulary_rows
    yield f"{naming.text}embed_tokens.weight", (rows, hidden)
    for index, kind in enumerate(config.layer_kinds):
        layer = naming.layer(index)
        yield from _norms(config, layer)
        yield from _attention(config, layer) if kind == "full_attention" else _delta_net(config, layer)
        yield from _feed_forward(config, naming, layer)
    yield f"{naming.text}norm.weight", (hidden,)
    if not config.tied_head or naming.has_head:
        yield naming.head, (rows, hidden)


def _norms(config: QwenHybridConfig, layer: str) -> Shapes:
    yield f"{layer}input_layernorm.weight", (config.hidden_size,)
    yield f"{layer}post_attention_layernorm.weight", (config.hidden_size,)


def _attention(config: QwenHybridConfig, layer: str) -> Shapes:
    hidden, width = config.hidden_size, config.query_heads * config.head_dim
    yield f"{layer}self_attn.q_proj.weight", (2 * width, hidden)
    yield f"{layer}self_attn.k_proj.weight", (config.kv_heads * config.head_dim, hidden)
    yield f"{layer}self_attn.v_proj.weight", (config.kv_heads * config.head_dim, hidden)
    yield f"{layer}self_attn.o_proj.weight", (hidden, width)
    yield f"{layer}self_attn.q_norm.weight", (config.head_dim,)
    yield f"{layer}self_attn.k_norm.weight", (config.head_dim,)


def _delta_net(config: QwenHybridConfig, layer: str) -> Shapes:
    hidden, width = config.hidden_size, config.value_heads * config.value_dim
    yield f"{layer}linear_attn.in_proj_qkv.weight", (config.conv_channels, hidden)
    yield f"{layer}linear_attn.in_proj_z.weight", (width, hidden)
    yield f"{layer}linear_attn.in_proj_b.weight", (config.value_heads, hidden)
    yield f"{layer}linear_attn.in_proj_a.weight", (config.value_heads, hidden)
    yield f"{layer}linear_attn.conv1d.weight", (config.conv_channels, 1, config.conv_width)
    yield f"{layer}linear_attn.A_log", (config.value_heads,)
    yield f"{layer}linear_attn.dt_bias", (config.value_heads,)
    yield f"{layer}linear_attn.norm.weight", (config.value_dim,)
    yield f"{layer}linear_attn.out_proj.weight", (hidden, width)


def _feed_forward(config: QwenHybridConfig, naming: Naming, layer: str) -> Shapes:
    if config.experts is not None:
        yield from _experts(config.experts, config.hidden_size, layer, fused=naming.fused_experts(layer))
    else:
        assert config.intermediate_size is not None
        yield from _swiglu(f"{layer}mlp.", config.hidden_size, config.intermediate_size)


def _swiglu(prefix: str, hidden: int, width: int) -> Shapes:
    yield f"{prefix}gate_proj.weight", (width, hidden)
    yield f"{prefix}up_proj.weight", (width, hidden)
    yield f"{prefix}down_proj.weight", (hidden, width)


def _experts(experts: Experts, hidden: int, layer: str, *, fused: bool) -> Shapes:
    width = experts.intermediate_size
    yield f"{layer}mlp.gate.weight", (experts.count, hidden)
    if fused:
        yield f"{layer}mlp.experts.gate_up_proj", (experts.count, 2 * width, hidden)
        yield f"{layer}mlp.experts.down_proj", (experts.count, hidden, width)
    else:
        for expert in range(experts.count):
            yield from _swiglu(f"{layer}mlp.experts.{expert}.", hidden, width)
    yield from _swiglu(f"{layer}mlp.shared_expert.", hidden, experts.shared_intermediate_size)
    yield f"{layer}mlp.shared_expert_gate.weight", (1, hidden)


def _mtp(config: QwenHybridConfig, naming: Naming) -> Shapes:
    hidden = config.hidden_size
    yield f"{MTP_PREFIX}fc.weight", (hidden, 2 * hidden)
    for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
        yield f"{MTP_PREFIX}{name}.weight", (hidden,)
    for index in range(config.mtp_layers):
        layer = f"{MTP_PREFIX}layers.{index}."
        yield from _norms(config, layer)
        yield from _attention(config, layer)
        yield from _feed_forward(config, naming, layer)


def _vision(shape: VisionShape, prefix: str) -> Shapes:
    hidden, merged = shape.hidden_size, shape.hidden_size * shape.spatial_merge_size**2
    patch = (shape.in_channels, shape.temporal_patch_size, shape.patch_size, shape.patch_size)
    yield from _biased(f"{prefix}patch_embed.proj", (hidden, *patch))
    yield f"{prefix}pos_embed.weight", (shape.position_embeddings, hidden)
    for index in range(shape.depth):
        block = f"{prefix}blocks.{index}."
        yield from _biased(f"{block}norm1", (hidden,))
        yield from _biased(f"{block}norm2", (hidden,))
        yield from _biased(f"{block}attn.qkv", (3 * hidden, hidden))
        yield from _biased(f"{block}attn.proj", (hidden, hidden))
        yield from _biased(f"{block}mlp.linear_fc1", (shape.intermediate_size, hidden))
        yield from _biased(f"{block}mlp.linear_fc2", (hidden, shape.intermediate_size))
    yield from _biased(f"{prefix}merger.norm", (hidden,))
    yield from _biased(f"{prefix}merger.linear_fc1", (merged, merged))
    yield from _biased(f"{prefix}merger.linear_fc2", (shape.out_hidden_size, merged))


def _biased(name: str, shape: tuple[int, ...]) -> Shapes:
    yield f"{name}.weight", shape
    yield f"{name}.bias", shape[:1]
