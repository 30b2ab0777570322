"""The expert layer for few tokens: the launches of `kernels.few`."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton

from ninfer_core.ops.linear.reference import Norm
from ninfer_core.ops.moe.kernels.few import inner_kernel, outer_kernel
from ninfer_core.ops.moe.launch import Block, inputs_at_once, operands, start
from ninfer_core.ops.moe.pairs import PairLaunch, add_pairs, takes
from ninfer_core.ops.moe.router import Chosen, RouterLaunch, choose
from ninfer_core.ops.moe.weights import ExpertWeights
from ninfer_core.ops.workspace.moe import MOST_TOKENS

TILE_TOKENS = 16
"""Tokens of the smallest tile; a dot has no fewer rows."""
COUNTERS = 128 + 1024
"""Those of `kernels.few`: for each tile of tokens that choose together, and for each block of outputs."""


@dataclass(frozen=True, slots=True)
class FewLaunch:
    """Launch parameters. Row classes up to `pair_class` take the pairs where the matrices are dense: `one_token` or
    `several`, which give the same bits. Otherwise they take `inner` and `outer`, where `sum_tokens` are added up at
    once."""

    router: RouterLaunch
    one_token: PairLaunch
    several: PairLaunch
    pair_class: int
    inner: Block
    outer: Block
    sum_tokens: int


@dataclass(frozen=True, slots=True)
class FewTokens:
    """The layer for up to `MOST_TOKENS` tokens. `counters` int32 [COUNTERS] are zero between launches, so that one
    object serves launches in one order, on one stream."""

    launch: FewLaunch
    counters: torch.Tensor

    def __call__(
        self, x: torch.Tensor, weights: ExpertWeights, row_class: int = 0, *, norm: Norm, residual: torch.Tensor
    ) -> torch.Tensor:
        """x [..., hidden] -> [..., hidden]; see the package."""
        flat = x.reshape(-1, x.shape[-1])
        tokens, hidden = flat.shape
        assert tokens <= MOST_TOKENS
        assert triton.cdiv(hidden, self.launch.outer.rows) <= COUNTERS - MOST_TOKENS
        y = torch.empty_like(flat)
        if tokens:
            router = self.launch.router
            chosen = choose(flat, weights, norm, router, self.counters)
            given = residual.reshape(flat.shape)
            if max(tokens, row_class) <= self.launch.pair_class and takes(weights):
                pairs = self.launch.one_token if tokens == 1 else self.launch.several
                add_pairs(chosen, weights, pairs, router.options, given, y)
            else:
                run = _Run(self, chosen, weights, _tile_tokens(tokens, row_class))
                run.inner_values()
                run.outputs(given, y)
        return y.view(x.shape)


def _tile_tokens(tokens: int, row_class: int) -> int:
    return max(TILE_TOKENS, 1 << (max(tokens, row_class) - 1).bit_length())


class _Run:
    """The temporaries of one call in tiles, and its launches in order."""

    def __init__(self, few: FewTokens, chosen: Chosen, weights: ExpertWeights, block_tokens: int) -> None:
        self._launch, self._counters, self._dependent = few.launch, few.counters, few.launch.router.options
        self._chosen, self._weights, self._block_tokens = chosen, weights, block_tokens
        self._tokens, self._hidden = chosen.normed.shape
        self._experts, self._top_k = weights.router.shape[0], weights.per_token
        self._width, self._shared_width = weights.down.inputs, weights.shared_down.inputs
        self._by_expert = block_tokens * self._top_k > self._experts
        self._slots = self._experts if self._by_expert else self._tokens * self._top_k
        tokens, like = self._tokens, chosen.normed
        self._shared_inner = like.new_empty(tokens, self._shared_width)
        self._inner = like.new_empty(tokens * self._top_k, self._width)
        self._parts = torch.empty(tokens * (self._top_k + 1), self._hidden, device=like.device)

    def inner_values(self) -> None:
        """gate ‖ up of the shared expert, and of every chosen one for the tokens that chose it."""
        block, weights = self._launch.inner, self._weights
        codes, block_scale, scale, layout = operands(weights.gate_up)
        shared_codes, shared_block_scale, shared_scale, shared_layout = operands(weights.shared_gate_up)
        start(
            inner_kernel, (triton.cdiv(2 * max(self._width, self._shared_width), block.rows), self._slots + 1),
            self._chosen.normed, codes, block_scale, scale, shared_codes, shared_block_scale, shared_scale,
            self._chosen.experts, self._inner, self._shared_inner, self._tokens,
            HIDDEN=self._hidden, WIDTH=self._width, SHARED_WIDTH=self._shared_width, TOP_K=self._top_k,
            BY_EXPERT=self._by_expert, BLOCK_T=self._block_tokens,
            SHARED_K=inputs_at_once(block, shared_layout), SHARED_FORMAT=shared_layout,
            **block.program(self._block_tokens, self._chosen.normed, layout, shared_layout), **self._dependent,
        )  # fmt: skip

    def outputs(self, residual: torch.Tensor, y: torch.Tensor) -> None:
        """Write residual + what the experts give to `y`."""
        block = self._launch.outer
        codes, block_scale, scale, layout = operands(self._weights.down)
        shared_codes, shared_block_scale, shared_scale, shared_layout = operands(self._weights.shared_down)
        start(
            outer_kernel, (triton.cdiv(self._hidden, block.rows), self._slots + 1),
            self._inner, codes, block_scale, scale,
            self._shared_inner, shared_codes, shared_block_scale, shared_scale,
            self._chosen.experts, self._chosen.shares, self._chosen.openings, self._parts, residual, y,
            self._counters, self._tokens,
            HIDDEN=self._hidden, WIDTH=self._width, SHARED_WIDTH=self._shared_width, TOP_K=self._top_k,
            BY_EXPERT=self._by_expert, BLOCK_T=self._block_tokens, BLOCK_SUM=self._launch.sum_tokens,
            SHARED_K=inputs_at_once(block, shared_layout), SHARED_FORMAT=shared_layout,
            **block.program(self._block_tokens, self._chosen.normed, layout, shared_layout), **self._dependent,
        )  # fmt: skip
