"""What the text model holds on the device, and which tensors of the artifact each piece is put together from.

The ledger's `weights` line and the loader read the same list, so that one cannot be right without the other.
Matrices that are applied to the same input are kept as one, in the order of `parts`, as long as the artifact has all of
them in one form; scales are kept row by row, so that parts with scales of their own join exactly. No torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ninfer_core.api import ArtifactHeader, MatrixFormat, StoredMatrix, TensorSpec
from ninfer_models.qwen_hybrid.config import Experts, LayerKind, QwenHybridConfig, parse_config
from ninfer_models.qwen_hybrid.inventory import MTP_PREFIX, Naming, stored_matrix
from ninfer_models.qwen_hybrid.reduced_head import REDUCED_HEAD, reduced_head

EMBEDDING, HEAD, FINAL_NORM = "embedding", "head", "final_norm"
INVERSE_FREQUENCY, ROPE_AXIS = "inverse_frequency", "rope_axis"
MTP_LAYER = "mtp.layer."
MTP_JOINT, MTP_NORM, MTP_EMBEDDING_NORM, MTP_HIDDEN_NORM = (
    f"mtp.{name}" for name in ("joint", "norm", "embedding_norm", "hidden_norm")
)
DRAFT_HEAD, DRAFT_TOKEN_IDS = "draft_head", "draft_token_ids"


class ResidentTensor(msgspec.Struct, frozen=True, kw_only=True):
    """One tensor on the device: the elements of `part`. No part: it is computed."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    part: str | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        """Tensors of the artifact, in the order they are read in."""
        return () if self.part is None else (self.part,)

    @property
    def tensors(self) -> tuple[TensorSpec, ...]:
        return (TensorSpec(name=self.name, shape=self.shape, dtype=self.dtype),)


class ResidentMatrix(msgspec.Struct, frozen=True, kw_only=True):
    """One `ops.linear.Matrix` [..., outputs, inputs]: the rows of `parts`, one after the other. `dtype` is that of
    dense weights. Parts in several forms make a dense matrix, rounded to that dtype; `scale_groups` are fp8 scales
    of a row."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    parts: tuple[StoredMatrix, ...]

    @property
    def format(self) -> MatrixFormat:
        formats = {part.format for part in self.parts}
        return self.parts[0].format if len(formats) == 1 else "dense"

    @property
    def scale_groups(self) -> int:
        return max(part.scale_groups for part in self.parts)

    @property
    def sources(self) -> tuple[str, ...]:
        """Tensors of the artifact, in the order they are read in."""
        return tuple(spec.name for part in self.parts for spec in part.tensors if spec not in part.unused)

    @property
    def tensors(self) -> tuple[TensorSpec, ...]:
        """What the matrix consists of on the device."""
        rows, inputs = self.shape[:-1], self.shape[-1]
        if self.format == "dense":
            return (TensorSpec(name=self.name, shape=self.shape, dtype=self.dtype),)
        scale = f"{self.name}.scale"
        if self.format == "fp8":
            return (
                TensorSpec(name=self.name, shape=self.shape, dtype="float8_e4m3fn"),
                TensorSpec(name=scale, shape=(*rows, self.scale_groups), dtype="float32"),
            )
        return (
            TensorSpec(name=self.name, shape=(*rows, inputs // 2), dtype="uint8"),
            TensorSpec(name=f"{self.name}.block_scale", shape=(*rows, inputs // 16), dtype="float8_e4m3fn"),
            TensorSpec(name=scale, shape=rows, dtype="float32"),
        )


class ResidentRows(msgspec.Struct, frozen=True, kw_only=True):
    """A copy of those rows of another resident that the tensor `token_ids` of the artifact lists: `ids` int64 and the
    tensors of `whole` with as many rows. Tokens outside it are refused when they are read."""

    name: str
    ids: str
    rows: int
    token_ids: str
    whole: ResidentTensor | ResidentMatrix

    @property
    def sources(self) -> tuple[str, ...]:
        return (self.token_ids,)

    @property
    def tensors(self) -> tuple[TensorSpec, ...]:
        ids = TensorSpec(name=self.ids, shape=(self.rows,), dtype="int64")
        rows = (msgspec.structs.replace(spec, shape=(self.rows, *spec.shape[1:])) for spec in self.whole.tensors)
        own = (msgspec.structs.replace(spec, name=self.name + spec.name.removeprefix(self.whole.name)) for spec in rows)
        return (ids, *own)


Resident = ResidentTensor | ResidentMatrix | ResidentRows
Pieces = Iterator[Resident]
TEXT_ONLY = ("text",)


def build_resident(
    header: ArtifactHeader, activation_dtype: str, groups: Sequence[str] = TEXT_ONLY
) -> tuple[TensorSpec, ...]:
    """The list as the plan wants it. Raises ArtifactInvalid."""
    config = parse_config(header)
    residents = list_residents(config, Naming(header, config), activation_dtype, groups)
    return tuple(spec for each in residents for spec in each.tensors)


def layer_prefix(index: int) -> str:
    return f"layers.{index}."


def list_residents(
    config: QwenHybridConfig, naming: Naming, activation_dtype: str, groups: Sequence[str] = TEXT_ONLY
) -> tuple[Resident, ...]:
    """Everything the text model reads: dense matrices and the embedding in the activation dtype, vectors and taps in
    float32, other matrices in their codes. `mtp` and `draft_head` among `groups` add what drafters use of them."""
    lister = _Lister(config, naming, activation_dtype)
    pieces = list(lister.text())
    if "mtp" in groups:
        pieces += lister.next_token_head()
    if "draft_head" in groups:
        pieces += lister.reduced_head(pieces)
    return tuple(pieces)


def joins(parts: Sequence[StoredMatrix]) -> bool:
    """Whether one matrix can hold the rows of all parts as they are stored."""
    return len({part.format for part in parts}) == 1


class _Lister:
    def __init__(self, config: QwenHybridConfig, naming: Naming, activation_dtype: str) -> None:
        self._config = config
        self._naming = naming
        self._dtype = activation_dtype

    def text(self) -> Pieces:
        config, naming = self._config, self._naming
        table = (config.vocabulary_rows, config.hidden_size)
        yield self._tensor(EMBEDDING, table, f"{naming.text}embed_tokens.weight", self._dtype)
        if not config.tied_head:
            yield self._matrix(HEAD, self._stored(naming.head, *table))
        yield self._tensor(FINAL_NORM, (config.hidden_size,), f"{naming.text}norm.weight")
        yield ResidentTensor(name=INVERSE_FREQUENCY, shape=(config.rope.pairs,), dtype="float32")
        yield ResidentTensor(name=ROPE_AXIS, shape=(config.rope.pairs,), dtype="int64")
        for index, kind in enumerate(config.layer_kinds):
            yield from self._layer(layer_prefix(index), naming.layer(index), kind)

    def next_token_head(self) -> Pieces:
        """Of several layers the first: drafters apply it again and again."""
        hidden, theirs = self._config.hidden_size, MTP_PREFIX
        yield self._matrix(MTP_JOINT, self._stored(f"{theirs}fc.weight", hidden, 2 * hidden))
        norms = {MTP_EMBEDDING_NORM: "pre_fc_norm_embedding", MTP_HIDDEN_NORM: "pre_fc_norm_hidden", MTP_NORM: "norm"}
        for name, part in norms.items():
            yield self._tensor(name, (hidden,), f"{theirs}{part}.weight")
        yield from self._layer(MTP_LAYER, f"{theirs}layers.0.", "full_attention")

    def reduced_head(self, text: Sequence[Resident]) -> Pieces:
        """Rows of the head, in the form in which it is kept."""
        head = EMBEDDING if self._config.tied_head else HEAD
        whole = next(each for each in text if each.name == head)
        assert not isinstance(whole, ResidentRows)
        (rows,) = (shape[0] for _, shape in reduced_head(self._naming.stored))
        yield ResidentRows(name=DRAFT_HEAD, ids=DRAFT_TOKEN_IDS, rows=rows, token_ids=REDUCED_HEAD, whole=whole)

    def _layer(self, ours: str, theirs: str, kind: LayerKind) -> Pieces:
        hidden = (self._config.hidden_size,)
        yield self._tensor(f"{ours}input_norm", hidden, f"{theirs}input_layernorm.weight")
        yield self._tensor(f"{ours}feed_forward_norm", hidden, f"{theirs}post_attention_layernorm.weight")
        mixer = self._attention if kind == "full_attention" else self._delta_net
        yield from mixer(ours, theirs)
        yield from self._feed_forward(ours, theirs)

    def _tensor(self, name: str, shape: tuple[int, ...], part: str, dtype: str = "float32") -> ResidentTensor:
        return ResidentTensor(name=name, shape=shape, dtype=dtype, part=part)

    def _stored(self, name: str, *shape: int) -> StoredMatrix:
        return stored_matrix(self._naming, name, shape)

    def _matrix(self, name: str, *parts: StoredMatrix) -> ResidentMatrix:
        """Parts without a leading axis, joined along their outputs."""
        shape = (sum(part.shape[-2] for part in parts), parts[0].shape[-1])
        return ResidentMatrix(name=name, shape=shape, dtype=self._dtype, parts=parts)

    def _attention(self, ours: str, theirs: str) -> Pieces:
        config, theirs = self._config, f"{theirs}self_attn."
        hidden, width, kv_width = (
            config.hidden_size,
            config.query_heads * config.head_dim,
            config.kv_heads * config.head_dim,
        )
        rows = {"q": 2 * width, "k": kv_width, "v": kv_width}
        parts = [self._stored(f"{theirs}{name}_proj.weight", outputs, hidden) for name, outputs in rows.items()]
        yield self._matrix(f"{ours}query_gate_key_value", *parts)
        yield self._matrix(f"{ours}mixer_out", self._stored(f"{theirs}o_proj.weight", hidden, width))
        yield self._tensor(f"{ours}query_norm", (config.head_dim,), f"{theirs}q_norm.weight")
        yield self._tensor(f"{ours}key_norm", (config.head_dim,), f"{theirs}k_norm.weight")

    def _delta_net(self, ours: str, theirs: str) -> Pieces:
        """Checkpoints in 8 and 4 bits keep the gates b and a in 16: then they are a matrix of their own."""
        config, theirs = self._config, f"{theirs}linear_attn."
        hidden, width, heads = config.hidden_size, config.value_heads * config.value_dim, config.value_heads
        rows = {"qkv": config.conv_channels, "z": width, "b": heads, "a": heads}
        parts = [self._stored(f"{theirs}in_proj_{name}.weight", outputs, hidden) for name, outputs in rows.items()]
        if joins(parts):
            yield self._matrix(f"{ours}qkv_z_b_a", *parts)
        else:
            yield self._matrix(f"{ours}qkv_z", *parts[:2])
            yield self._matrix(f"{ours}b_a", *parts[2:])
        yield self._matrix(f"{ours}mixer_out", self._stored(f"{theirs}out_proj.weight", hidden, width))
        yield self._tensor(f"{ours}conv", (config.conv_channels, config.conv_width), f"{theirs}conv1d.weight")
        yield self._tensor(f"{ours}a_log", (heads,), f"{theirs}A_log")
        yield self._tensor(f"{ours}dt_bias", (heads,), f"{theirs}dt_bias")
        yield self._tensor(f"{ours}gate_norm", (config.value_dim,), f"{theirs}norm.weight")

    def _feed_forward(self, ours: str, theirs: str) -> Pieces:
        if self._config.experts is not None:
            yield from self._experts(self._config.experts, ours, theirs)
        else:
            assert self._config.intermediate_size is not None
            yield from self._swiglu(ours, f"{theirs}mlp.", self._config.intermediate_size)

    def _swiglu(self, ours: str, theirs: str, width: int) -> Pieces:
        hidden = self._config.hidden_size
        sides = [self._stored(f"{theirs}{side}_proj.weight", width, hidden) for side in ("gate", "up")]
        yield self._matrix(f"{ours}gate_up", *sides)
        yield self._matrix(f"{ours}down", self._stored(f"{theirs}down_proj.weight", hidden, width))

    def _experts(self, experts: Experts, ours: str, theirs: str) -> Pieces:
        hidden, width, mlp = self._config.hidden_size, experts.intermediate_size, f"{theirs}mlp."
        gate_up: list[StoredMatrix]
        down: list[StoredMatrix]
        wide, narrow = (experts.count, 2 * width, hidden), (experts.count, hidden, width)
        if self._naming.fused_experts(theirs):
            gate_up = [self._stored(f"{mlp}experts.gate_up_proj", *wide)]
            down = [self._stored(f"{mlp}experts.down_proj", *narrow)]
        else:
            each = [f"{mlp}experts.{expert}." for expert in range(experts.count)]
            gate_up = [
                self._stored(f"{one}{side}_proj.weight", width, hidden) for one in each for side in ("gate", "up")
            ]
            down = [self._stored(f"{one}down_proj.weight", hidden, width) for one in each]
        yield self._matrix(f"{ours}router", self._stored(f"{mlp}gate.weight", experts.count, hidden))
        for name, shape, parts in (("experts_gate_up", wide, gate_up), ("experts_down", narrow, down)):
            yield ResidentMatrix(name=ours + name, shape=shape, dtype=self._dtype, parts=tuple(parts))
        yield from self._swiglu(f"{ours}shared_", f"{mlp}shared_expert.", experts.shared_intermediate_size)
        yield self._matrix(f"{ours}shared_gate", self._stored(f"{mlp}shared_expert_gate.weight", 1, hidden))
