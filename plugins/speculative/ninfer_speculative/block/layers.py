"""A layer of a block drafter, over the operations of the core. Whether convolutions stand around its sublayers, as in
DFlash2, is decided when it is put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch

from ninfer_core.api import HeadNorms, Kernels, Rotation
from ninfer_core.ops import block_attention, block_conv, draft_walk, partial_rope
from ninfer_core.ops import likeliest as likeliest_op
from ninfer_core.ops import linear as linear_op
from ninfer_core.ops import rms_norm as rms_norm_op
from ninfer_core.ops.block_attention import BlockAttention, BlockShape, Ring
from ninfer_core.ops.block_conv import BlockConv
from ninfer_core.ops.draft_walk import DraftWalk
from ninfer_core.ops.likeliest import Likeliest
from ninfer_core.ops.linear import DenseMatrix, Linear, Norm, output_rows
from ninfer_core.ops.partial_rope import RopeAngles
from ninfer_core.ops.rms_norm import RmsNorm
from ninfer_speculative.block.config import DraftConfig
from ninfer_speculative.block.resident import layer_prefix

Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Routes:
    """The operations of one device, chosen once."""

    linear: Linear
    rms_norm: RmsNorm
    rope_angles: RopeAngles
    attention: BlockAttention
    conv: BlockConv
    likeliest: Likeliest
    walk: DraftWalk


def select_routes(device: torch.device, kernels: Kernels) -> Routes:
    return Routes(
        linear=linear_op.select(device, kernels),
        rms_norm=rms_norm_op.select(device, kernels),
        rope_angles=partial_rope.select(device, kernels),
        attention=block_attention.select(device, kernels),
        conv=block_conv.select(device, kernels),
        likeliest=likeliest_op.select(device, kernels),
        walk=draft_walk.select(device, kernels),
    )


@dataclass(frozen=True, slots=True)
class Context:
    """What the layers are to keep of some columns of the target."""

    vectors: torch.Tensor  # [rows, columns, hidden]
    rotation: Rotation
    slots: torch.Tensor  # [rows] int64
    first: torch.Tensor  # [rows] int64: position of the first column
    counts: torch.Tensor  # [rows] int64
    row_class: int


@dataclass(frozen=True, slots=True)
class Block:
    """One pass over the blocks of all rows. `row_class` is that of `ops.linear`; lengths are of the context."""

    rotation: Rotation
    slots: torch.Tensor  # [rows] int64
    lengths: torch.Tensor  # [rows] int64
    row_class: int


class Around(Protocol):
    """What stands between a residual stream and a sublayer: norm and addition, and in DFlash2 the convolutions."""

    def __call__(self, x: torch.Tensor, sublayer: Sublayer, row_class: int) -> torch.Tensor:
        """x [rows, columns, hidden] -> the same shape, the sublayer's result added."""
        ...


class Sublayer(Protocol):
    """x [rows, columns, hidden], normed here where there is a norm -> the same shape, `residual` added if there is
    one."""

    def __call__(self, x: torch.Tensor, norm: Norm | None, residual: torch.Tensor | None) -> torch.Tensor: ...


class Plain:
    """Norm and addition are done inside the products of the sublayer."""

    def __init__(self, norm: Norm) -> None:
        self._norm = norm

    def __call__(self, x: torch.Tensor, sublayer: Sublayer, row_class: int) -> torch.Tensor:
        return sublayer(x, self._norm, x)


class Convolved:
    """Both convolutions take their coefficients from the normed input; the second is applied to the result."""

    def __init__(self, norm: Norm, base: torch.Tensor, coefficients: torch.Tensor, routes: Routes) -> None:
        self._norm = norm
        self._before, self._after = base.unbind(0)  # [taps, hidden] each
        self._coefficients = DenseMatrix(coefficients)
        self._routes = routes

    def __call__(self, x: torch.Tensor, sublayer: Sublayer, row_class: int) -> torch.Tensor:
        normal = self._routes.rms_norm(x, self._norm.weight, self._norm.epsilon)
        delta = self._routes.linear(normal, self._coefficients, row_class)
        sides = delta.view(*delta.shape[:2], 2, self._before.shape[0], -1)  # [rows, columns, 2, taps, groups]
        before, after = sides.unbind(2)
        inside = sublayer(self._routes.conv(normal, self._before, before), None, None)
        return self._routes.conv(inside, self._after, after, residual=x)


class DraftLayer:
    """Attention over a context and the block, then a gated feed-forward part."""

    def __init__(self, config: DraftConfig, tensors: Tensors, index: int, routes: Routes) -> None:
        layer, self._linear, self._attention = layer_prefix(index), routes.linear, routes.attention
        kind = config.layers[index]
        self._shape = BlockShape(config.query_heads, config.kv_heads, config.head_dim, kind.window, kind.causal)
        self._project_in = DenseMatrix(tensors[f"{layer}query_key_value"])
        self._key_value = output_rows(self._project_in, config.query_width, self._project_in.outputs)
        self._project_out = DenseMatrix(tensors[f"{layer}attention_out"])
        self._gate_up, self._down = (DenseMatrix(tensors[f"{layer}{name}"]) for name in ("gate_up", "down"))
        self._norms = HeadNorms(tensors[f"{layer}query_norm"], tensors[f"{layer}key_norm"], config.norm_epsilon)
        self._scale = config.head_dim**-0.5
        self._around_attention, self._around_feed_forward = (
            _around(config, tensors, layer, norm, conv, routes)
            for norm, conv in (("attention_norm", "attention_conv"), ("feed_forward_norm", "mlp_conv"))
        )

    def store(self, context: Context, ring: Ring) -> None:
        """Keep keys and values of the context in `ring`, which is of this layer alone."""
        stored = self._linear(context.vectors, self._key_value, context.row_class)
        self._attention.store(
            ring,
            stored.view(*stored.shape[:2], 1, 2, self._shape.kv_heads, self._shape.head_dim),
            self._norms.key.unsqueeze(0),
            self._norms.epsilon,
            context.rotation,
            context.slots,
            context.first,
            context.counts,
        )

    def __call__(self, x: torch.Tensor, ring: Ring, block: Block) -> torch.Tensor:
        """x [rows, columns, hidden] -> the same shape."""
        x = self._around_attention(x, self._attend_over(ring, block), block.row_class)
        return self._around_feed_forward(x, self._feed_forward_in(block.row_class), block.row_class)

    def _attend_over(self, ring: Ring, block: Block) -> Sublayer:
        def attend(x: torch.Tensor, norm: Norm | None, residual: torch.Tensor | None) -> torch.Tensor:
            projected = self._linear(x, self._project_in, block.row_class, norm=norm)
            mixed = self._attention.attend(
                self._shape, ring, 0, projected, self._norms, block.rotation, block.slots, block.lengths, self._scale
            )
            return self._linear(mixed, self._project_out, block.row_class, residual=residual)

        return attend

    def _feed_forward_in(self, row_class: int) -> Sublayer:
        def feed_forward(x: torch.Tensor, norm: Norm | None, residual: torch.Tensor | None) -> torch.Tensor:
            inner = self._linear(x, self._gate_up, row_class, norm=norm, gated=True)
            return self._linear(inner, self._down, row_class, residual=residual)

        return feed_forward


def _around(config: DraftConfig, tensors: Tensors, layer: str, norm: str, conv: str, routes: Routes) -> Around:
    normed = Norm(tensors[layer + norm], config.norm_epsilon)
    if config.additions is None:
        return Plain(normed)
    return Convolved(normed, tensors[f"{layer}{conv}.base"], tensors[f"{layer}{conv}.coefficients"], routes)
