"""The expert layer for many tokens: the launches of `kernels.many`, and the shared expert as two linear maps."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton

from ninfer_core.ops.linear.matrix import Fp8Matrix, Matrix, Nvfp4Matrix
from ninfer_core.ops.linear.reference import Norm
from ninfer_core.ops.linear.select import Linear
from ninfer_core.ops.moe.kernels.many import (
    choose_kernel,
    combine_kernel,
    grouped_inner_kernel,
    grouped_outer_kernel,
    order_kernel,
    prepare_kernel,
)
from ninfer_core.ops.moe.launch import Block, Launcher, operands, padded_experts, start
from ninfer_core.ops.moe.weights import ExpertWeights

COUNTS = 16
"""Where the counts of the experts start in `counters`."""
ORDER_PAIRS = 1024
"""Pairs that a program puts in their places."""


CHOOSE_TOKENS = 8
"""Tokens that a program chooses experts for, one a warp."""


@dataclass(frozen=True, slots=True)
class ManyLaunch:
    """Launch parameters for tiles of `tokens` tokens."""

    tokens: int
    inner: Block
    outer: Block


Launches = tuple[tuple[int, ManyLaunch], ...]
"""(tokens at most, what to launch), ascending."""


@dataclass(frozen=True, slots=True)
class ManyTable:
    """Launches by the form of the weights. `coded` are those where codes of tokens are multiplied with fp8 codes of
    weights; there the inner values that share a scale are half the rows of `inner` and the inputs of `outer`."""

    dense: Launches
    coded: Launches
    nvfp4: Launches

    def find(self, weights: ExpertWeights, tokens: int) -> ManyLaunch:
        """What to launch for so many tokens."""
        launches = self.dense
        if both_fp8(weights):
            launches = self.coded
        elif isinstance(weights.gate_up, Nvfp4Matrix):
            launches = self.nvfp4
        return next(launch for most, launch in launches if tokens <= most)


@dataclass(frozen=True, slots=True)
class ManyTokens:
    """The layer for any number of tokens. `counters` int32 [COUNTS + experts at least] are zero between launches, so
    that one object serves launches in one order, on one stream."""

    table: ManyTable
    linear: Linear
    counters: torch.Tensor

    def __call__(
        self, x: torch.Tensor, weights: ExpertWeights, row_class: int = 0, *, norm: Norm, residual: torch.Tensor
    ) -> torch.Tensor:
        """x [..., hidden] -> [..., hidden]; see the package."""
        flat = x.reshape(-1, x.shape[-1])
        tokens = flat.shape[0]
        y = torch.empty_like(flat)
        if tokens == 0:
            return y.view(x.shape)
        run = _Run(flat, weights, self.table.find(weights, tokens), self.counters, start)
        normed = run.prepare(norm)
        run.sort()
        run.experts()
        shared = self.linear(self.linear(normed, weights.shared_gate_up, gated=True), weights.shared_down)
        run.combine(shared, residual.reshape(flat.shape), y)
        return y.view(x.shape)


class _Run:
    """The temporaries of one call, and its launches in order. Pairs of token and expert are counted token by token,
    or, in `order`, expert by expert; `offsets` are where the experts start there."""

    def __init__(
        self, x: torch.Tensor, weights: ExpertWeights, launch: ManyLaunch, counters: torch.Tensor, start: Launcher
    ) -> None:
        self._x, self._weights, self._launch, self._counters, self._start = x, weights, launch, counters, start
        self._tokens, self._hidden = x.shape
        self._experts, self._top_k = weights.router.shape[0], weights.per_token
        self._pairs = self._tokens * self._top_k
        self._experts_padded = padded_experts(self._experts)
        self._coded = both_fp8(weights)
        self._normed = torch.empty_like(x)
        self._codes = torch.empty_like(x, dtype=torch.float8_e4m3fn) if self._coded else self._normed
        self._scales = torch.empty(self._tokens, device=x.device) if self._coded else self._normed
        self._openings = torch.empty(self._tokens, device=x.device)
        self._shares = torch.empty(self._pairs, device=x.device)
        self._order = torch.empty(self._pairs, dtype=torch.int32, device=x.device)
        self._offsets = torch.empty(self._experts + 1, dtype=torch.int32, device=x.device)
        self._parts = x.new_empty(self._pairs, self._hidden)

    def prepare(self, norm: Norm) -> torch.Tensor:
        """-> the normed tokens."""
        self._start(
            prepare_kernel, (self._tokens,), self._x, norm.weight, norm.epsilon, self._weights.shared_gate,
            self._normed, self._codes, self._scales, self._openings,
            HIDDEN=self._hidden, HIDDEN_PADDED=triton.next_power_of_2(self._hidden), CODED=self._coded, num_warps=4,
        )  # fmt: skip
        return self._normed

    def sort(self) -> None:
        """Choose experts, and put the pairs in their order."""
        scores = _scores(self._normed, self._weights.router)
        chosen, ranks = torch.empty_like(self._order), torch.empty_like(self._order)
        self._start(
            choose_kernel, (triton.cdiv(self._tokens, CHOOSE_TOKENS),),
            scores, chosen, self._shares, ranks, self._offsets, self._counters, self._counters[COUNTS:], self._tokens,
            EXPERTS=self._experts, EXPERTS_PADDED=self._experts_padded, TOP_K=self._top_k, BLOCK_T=CHOOSE_TOKENS,
            num_warps=CHOOSE_TOKENS,
        )  # fmt: skip
        self._start(
            order_kernel, (triton.cdiv(self._pairs, ORDER_PAIRS),),
            chosen, ranks, self._offsets, self._order, self._pairs, BLOCK=ORDER_PAIRS,
        )  # fmt: skip

    def experts(self) -> None:
        """What every token gets from each of its experts."""
        launch, weights = self._launch, self._weights
        inner = inner_scale = self._x.new_empty(self._pairs, weights.down.inputs, dtype=self._codes.dtype)
        formats = ("dense", "dense")
        if self._coded:
            assert launch.outer.inputs == launch.inner.rows // 2, "inner values that share a scale are read at once"
            groups = triton.cdiv(weights.gate_up.outputs, launch.inner.rows)
            inner_scale = torch.empty(self._pairs, groups, device=inner.device)
            formats = ("fp8", "fp8_groups")
        tiles = min(self._pairs, self._pairs // launch.tokens + self._experts)
        self._start(
            grouped_inner_kernel, (triton.cdiv(weights.gate_up.outputs, launch.inner.rows), tiles),
            self._codes, self._scales, *operands(weights.gate_up, words=not self._coded)[:3],
            self._order, self._offsets, inner, inner_scale,
            HIDDEN=self._hidden, WIDTH=inner.shape[1], TOP_K=self._top_k, X_FORMAT=formats[0],
            **self._tile(launch.inner, weights.gate_up),
        )  # fmt: skip
        self._start(
            grouped_outer_kernel, (triton.cdiv(self._hidden, launch.outer.rows), tiles),
            inner, inner_scale, *operands(weights.down, words=not self._coded)[:3],
            self._order, self._offsets, self._parts,
            HIDDEN=self._hidden, WIDTH=inner.shape[1], X_FORMAT=formats[1],
            **self._tile(launch.outer, weights.down),
        )  # fmt: skip

    def combine(self, shared: torch.Tensor, residual: torch.Tensor, y: torch.Tensor) -> None:
        """Write residual + the layer to `y`."""
        self._start(
            combine_kernel, (self._tokens,), self._parts, self._shares, shared, self._openings, residual, y,
            HIDDEN=self._hidden, HIDDEN_PADDED=triton.next_power_of_2(self._hidden), TOP_K=self._top_k, num_warps=4,
        )  # fmt: skip

    def _tile(self, block: Block, matrix: Matrix) -> dict[str, object]:
        return {
            "EXPERTS": self._experts,
            "EXPERTS_PADDED": self._experts_padded,
            "BLOCK_T": self._launch.tokens,
            **block.program(self._launch.tokens, self._codes, operands(matrix)[3]),
        }


def both_fp8(weights: ExpertWeights) -> bool:
    """Whether the experts can be multiplied with tokens in codes."""
    return isinstance(weights.gate_up, Fp8Matrix) and isinstance(weights.down, Fp8Matrix)


def _scores(normed: torch.Tensor, router: torch.Tensor) -> torch.Tensor:
    """normed [tokens, hidden] -> float32 [tokens, experts]: sums that are not rounded in between."""
    if not normed.is_cuda:
        return normed.float() @ router.float().T
    return torch.mm(normed, router.T, out_dtype=torch.float32)
