"""What the text model holds on the device, and which tensors of the artifact each piece is put together from.

The ledger's `weights` line and the loader read the same list, so that one cannot be right without the other.
Matrices that are applied to the same input are kept as one, in the order of `parts`. No torch.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ninfer_core.api import ArtifactHeader, TensorSpec
from ninfer_models.qwen_hybrid.config import Experts, QwenHybridConfig, parse_config
from ninfer_models.qwen_hybrid.inventory import Naming

EMBEDDING, HEAD, FINAL_NORM = "embedding", "head", "final_norm"
INVERSE_FREQUENCY, ROPE_AXIS = "inverse_frequency", "rope_axis"

Pieces = Iterator["Resident"]


class Resident(msgspec.Struct, frozen=True, kw_only=True):
    """One tensor on the device: the elements of `parts`, one after the other. No parts: it is computed."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    parts: tuple[str, ...]


def build_resident(header: ArtifactHeader, activation_dtype: str) -> tuple[TensorSpec, ...]:
    """The list as the plan wants it. Raises ArtifactInvalid."""
    config = parse_config(header)
    residents = list_residents(config, Naming(header, config), activation_dtype)
    return tuple(TensorSpec(name=each.name, shape=each.shape, dtype=each.dtype) for each in residents)


def layer_prefix(index: int) -> str:
    return f"layers.{index}."


def list_residents(config: QwenHybridConfig, naming: Naming, activation_dtype: str) -> tuple[Resident, ...]:
    """Everything the text model reads: matrices in the activation dtype, vectors and taps in float32."""
    return tuple(_Lister(config, naming, activation_dtype).all())


class _Lister:
    def __init__(self, config: QwenHybridConfig, naming: Naming, activation_dtype: str) -> None:
        self._config = config
        self._naming = naming
        self._dtype = activation_dtype

    def all(self) -> Pieces:
        config, naming = self._config, self._naming
        table = (config.vocabulary_rows, config.hidden_size)
        yield self._matrix(EMBEDDING, table, f"{naming.text}embed_tokens.weight")
        if not config.tied_head:
            yield self._matrix(HEAD, table, naming.head)
        yield self._vector(FINAL_NORM, (config.hidden_size,), f"{naming.text}norm.weight")
        yield Resident(name=INVERSE_FREQUENCY, shape=(config.rope.pairs,), dtype="float32", parts=())
        yield Resident(name=ROPE_AXIS, shape=(config.rope.pairs,), dtype="int64", parts=())
        for index, kind in enumerate(config.layer_kinds):
            ours, theirs = layer_prefix(index), naming.layer(index)
            hidden = (config.hidden_size,)
            yield self._vector(f"{ours}input_norm", hidden, f"{theirs}input_layernorm.weight")
            yield self._vector(f"{ours}feed_forward_norm", hidden, f"{theirs}post_attention_layernorm.weight")
            mixer = self._attention if kind == "full_attention" else self._delta_net
            yield from mixer(ours, theirs)
            yield from self._feed_forward(ours, theirs)

    def _matrix(self, name: str, shape: tuple[int, ...], *parts: str) -> Resident:
        return Resident(name=name, shape=shape, dtype=self._dtype, parts=parts)

    def _vector(self, name: str, shape: tuple[int, ...], *parts: str) -> Resident:
        return Resident(name=name, shape=shape, dtype="float32", parts=parts)

    def _attention(self, ours: str, theirs: str) -> Pieces:
        config, theirs = self._config, f"{theirs}self_attn."
        width, kv_width = config.query_heads * config.head_dim, config.kv_heads * config.head_dim
        yield self._matrix(
            f"{ours}query_gate_key_value",
            (2 * width + 2 * kv_width, config.hidden_size),
            *(f"{theirs}{name}_proj.weight" for name in ("q", "k", "v")),
        )
        yield self._matrix(f"{ours}mixer_out", (config.hidden_size, width), f"{theirs}o_proj.weight")
        yield self._vector(f"{ours}query_norm", (config.head_dim,), f"{theirs}q_norm.weight")
        yield self._vector(f"{ours}key_norm", (config.head_dim,), f"{theirs}k_norm.weight")

    def _delta_net(self, ours: str, theirs: str) -> Pieces:
        config, theirs = self._config, f"{theirs}linear_attn."
        width, heads = config.value_heads * config.value_dim, (config.value_heads,)
        yield self._matrix(
            f"{ours}qkv_z_b_a",
            (config.conv_channels + width + 2 * config.value_heads, config.hidden_size),
            *(f"{theirs}in_proj_{name}.weight" for name in ("qkv", "z", "b", "a")),
        )
        yield self._matrix(f"{ours}mixer_out", (config.hidden_size, width), f"{theirs}out_proj.weight")
        yield self._vector(f"{ours}conv", (config.conv_channels, config.conv_width), f"{theirs}conv1d.weight")
        yield self._vector(f"{ours}a_log", heads, f"{theirs}A_log")
        yield self._vector(f"{ours}dt_bias", heads, f"{theirs}dt_bias")
        yield self._vector(f"{ours}gate_norm", (config.value_dim,), f"{theirs}norm.weight")

    def _feed_forward(self, ours: str, theirs: str) -> Pieces:
        if self._config.experts is not None:
            yield from self._experts(self._config.experts, ours, theirs)
        else:
            assert self._config.intermediate_size is not None
            yield from self._swiglu(ours, f"{theirs}mlp.", self._config.intermediate_size)

    def _swiglu(self, ours: str, theirs: str, width: int) -> Pieces:
        hidden = self._config.hidden_size
        parts = (f"{theirs}gate_proj.weight", f"{theirs}up_proj.weight")
        yield self._matrix(f"{ours}gate_up", (2 * width, hidden), *parts)
        yield self._matrix(f"{ours}down", (hidden, width), f"{theirs}down_proj.weight")

    def _experts(self, experts: Experts, ours: str, theirs: str) -> Pieces:
        hidden, width, mlp = self._config.hidden_size, experts.intermediate_size, f"{theirs}mlp."
        gate_up: tuple[str, ...]
        down: tuple[str, ...]
        if self._naming.fused_experts(theirs):
            gate_up, down = (f"{mlp}experts.gate_up_proj",), (f"{mlp}experts.down_proj",)
        else:
            each = [f"{mlp}experts.{expert}." for expert in range(experts.count)]
            gate_up = tuple(f"{one}{side}_proj.weight" for one in each for side in ("gate", "up"))
            down = tuple(f"{one}down_proj.weight" for one in each)
        yield self._matrix(f"{ours}router", (experts.count, hidden), f"{mlp}gate.weight")
        yield self._matrix(f"{ours}experts_gate_up", (experts.count, 2 * width, hidden), *gate_up)
        yield self._matrix(f"{ours}experts_down", (experts.count, hidden, width), *down)
        yield from self._swiglu(f"{ours}shared_", f"{mlp}shared_expert.", experts.shared_intermediate_size)
        yield self._matrix(f"{ours}shared_gate", (1, hidden), f"{mlp}shared_expert_gate.weight")
