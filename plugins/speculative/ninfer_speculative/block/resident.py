"""What a block drafter holds on the device, and which tensors of its checkpoint each piece is put together from.

The checkpoint's inventory, the ledger's line and the loader read the same list. Matrices that meet the same input are
kept as one; those of keys and values stand last, so that the context, which has no queries, uses their rows alone. No
torch.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ninfer_core.api import DRAFT_GROUP, DRAFT_PREFIX, ArtifactHeader, TensorSpec
from ninfer_speculative.block.config import DraftConfig

_STORED_DTYPES = ("bfloat16", "float16", "float32")

JOIN, CONTEXT_NORM, FINAL_NORM = "join", "context_norm", "final_norm"
SELECTOR_STATE, PREDECESSORS, SUCCESSORS = "selector_state", "predecessors", "successors"


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """One tensor on the device: the rows of `parts`, one after the other. `centred`: kept with 1 taken off, which is
    how `ops.rms_norm` wants the weight of a norm."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    parts: tuple[TensorSpec, ...]
    centred: bool = False

    @property
    def spec(self) -> TensorSpec:
        return TensorSpec(name=f"{DRAFT_PREFIX}{self.name}", shape=self.shape, dtype=self.dtype, group=DRAFT_GROUP)


def list_pieces(config: DraftConfig, activation_dtype: str) -> tuple[Piece, ...]:
    """Matrices and codebooks in the activation dtype; norms and the kernels of convolutions in float32."""
    return tuple(_Lister(config, activation_dtype).all())


def list_tensors(header: ArtifactHeader, config: DraftConfig) -> tuple[TensorSpec, ...]:
    """Every tensor of the checkpoint under its name in the artifact, in the dtype that it is stored in as long as that
    is one we read."""
    stored = {tensor.name: tensor.dtype for tensor in header.tensors}
    parts = (part for piece in list_pieces(config, "bfloat16") for part in piece.parts)
    return tuple(msgspec.structs.replace(part, dtype=_read_as(stored.get(part.name))) for part in parts)


def _read_as(stored: str | None) -> str:
    return stored if stored in _STORED_DTYPES else "bfloat16"


def layer_prefix(index: int) -> str:
    return f"layers.{index}."


class _Lister:
    def __init__(self, config: DraftConfig, activation_dtype: str) -> None:
        self._config = config
        self._dtype = activation_dtype

    def all(self) -> Iterator[Piece]:
        config = self._config
        hidden = config.hidden_size
        yield self._matrix(JOIN, (hidden, len(config.taps) * hidden), "fc.weight")
        yield self._norm(CONTEXT_NORM, hidden, "hidden_norm.weight")
        yield self._norm(FINAL_NORM, hidden, "norm.weight")
        for index in range(len(config.layers)):
            yield from self._layer(layer_prefix(index))
        if config.additions is not None:
            rank, rows, selector = config.additions.rank, config.vocabulary_rows, "candidate_selector."
            yield self._matrix(SELECTOR_STATE, (rank, hidden), f"{selector}hidden_projection.weight")
            yield self._matrix(PREDECESSORS, (rows, rank), f"{selector}predecessor_codebook")
            yield self._matrix(SUCCESSORS, (rows, rank), f"{selector}successor_codebook")

    def _layer(self, layer: str) -> Iterator[Piece]:
        config = self._config
        hidden, width = config.hidden_size, config.intermediate_size
        attention, feed_forward = f"{layer}self_attn.", f"{layer}mlp."
        yield self._norm(f"{layer}attention_norm", hidden, f"{layer}input_layernorm.weight")
        yield self._joined(
            f"{layer}query_key_value",
            (config.query_width, f"{attention}q_proj.weight"),
            (config.kv_width, f"{attention}k_proj.weight"),
            (config.kv_width, f"{attention}v_proj.weight"),
        )
        yield self._norm(f"{layer}query_norm", config.head_dim, f"{attention}q_norm.weight")
        yield self._norm(f"{layer}key_norm", config.head_dim, f"{attention}k_norm.weight")
        yield self._matrix(f"{layer}attention_out", (hidden, config.query_width), f"{attention}o_proj.weight")
        yield self._norm(f"{layer}feed_forward_norm", hidden, f"{layer}post_attention_layernorm.weight")
        gate, up = (f"{feed_forward}{side}_proj.weight" for side in ("gate", "up"))
        yield self._joined(f"{layer}gate_up", (width, gate), (width, up))
        yield self._matrix(f"{layer}down", (hidden, width), f"{feed_forward}down_proj.weight")
        for conv in ("attention_conv", "mlp_conv") if config.additions is not None else ():
            yield from self._convolution(layer + conv)

    def _convolution(self, conv: str) -> Iterator[Piece]:
        additions, hidden = self._config.additions, self._config.hidden_size
        assert additions is not None
        base = (2, additions.taps, hidden)
        yield Piece(name=f"{conv}.base", shape=base, dtype="float32", parts=(self._part(f"{conv}.base_kernel", base),))
        coefficients = 2 * additions.taps * (hidden // additions.group)
        yield self._matrix(f"{conv}.coefficients", (coefficients, hidden), f"{conv}.kernel_projection.weight")

    def _part(self, name: str, shape: tuple[int, ...]) -> TensorSpec:
        return TensorSpec(name=DRAFT_PREFIX + name, shape=shape, dtype=self._dtype, group=DRAFT_GROUP)

    def _matrix(self, name: str, shape: tuple[int, int], part: str) -> Piece:
        return Piece(name=name, shape=shape, dtype=self._dtype, parts=(self._part(part, shape),))

    def _joined(self, name: str, *rows: tuple[int, str]) -> Piece:
        """Matrices of the hidden size as inputs, one below the other."""
        hidden = self._config.hidden_size
        parts = tuple(self._part(part, (outputs, hidden)) for outputs, part in rows)
        return Piece(name=name, shape=(sum(outputs for outputs, _ in rows), hidden), dtype=self._dtype, parts=parts)

    def _norm(self, name: str, width: int, part: str) -> Piece:
        return Piece(name=name, shape=(width,), dtype="float32", parts=(self._part(part, (width,)),), centred=True)
