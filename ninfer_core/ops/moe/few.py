"""The expert layer for few tokens: the launches of `kernels.few`."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton

from ninfer_core.ops.linear.reference import Norm
from ninfer_core.ops.moe.kernels.few import inner_kernel, outer_kernel, route_kernel
from ninfer_core.ops.moe.launch import Block, Launcher, inputs_at_once, operands, padded_experts, start
from ninfer_core.ops.moe.weights import ExpertWeights

TILE_TOKENS = 16
"""Tokens of the smallest tile; a dot has no fewer rows."""
MOST_TOKENS = 128
COUNTERS = 128 + 1024
"""Those of `kernels.few`: for each tile of tokens that choose together, and for each block of outputs."""


@dataclass(frozen=True, slots=True)
class FewLaunch:
    """Launch parameters. The router has programs of `router_rows` rows and `router_tokens` tokens, which choose
    together; `sum_tokens` are added up at once. `dependent`: a launch may begin while the one before it ends."""

    router_rows: int
    router_tokens: int
    router_warps: int
    inner: Block
    outer: Block
    sum_tokens: int
    dependent: bool


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
            run = _Run(self, flat, weights, _tile_tokens(tokens, row_class), start)
            run.all(norm, residual.reshape(flat.shape), y)
        return y.view(x.shape)


def _tile_tokens(tokens: int, row_class: int) -> int:
    return max(TILE_TOKENS, 1 << (max(tokens, row_class) - 1).bit_length())


class _Run:
    """The temporaries of one call, and its launches in order."""

    def __init__(
        self, few: FewTokens, x: torch.Tensor, weights: ExpertWeights, block_tokens: int, start: Launcher
    ) -> None:
        self._start = start
        # An option that only the launcher of CUDA knows.
        pdl = {"launch_pdl": True} if few.launch.dependent else {}
        self._dependent: dict[str, object] = {"DEPENDENT": few.launch.dependent, **pdl}
        self._launch, self._counters = few.launch, few.counters
        self._x, self._weights, self._block_tokens = x, weights, block_tokens
        self._tokens, self._hidden = x.shape
        self._experts, self._top_k = weights.router.shape[0], weights.per_token
        self._width, self._shared_width = weights.down.inputs, weights.shared_down.inputs
        self._by_expert = block_tokens * self._top_k > self._experts
        self._slots = self._experts if self._by_expert else self._tokens * self._top_k
        device, tokens = x.device, self._tokens
        self._normed = torch.empty_like(x)
        self._scores = torch.empty(tokens, self._experts, device=device)
        self._chosen = torch.empty(tokens, self._top_k, dtype=torch.int32, device=device)
        self._shares = torch.empty(tokens, self._top_k, device=device)
        self._openings = torch.empty(tokens, device=device)
        self._shared_inner = x.new_empty(tokens, self._shared_width)
        self._inner = x.new_empty(tokens * self._top_k, self._width)
        self._parts = torch.empty(tokens * (self._top_k + 1), self._hidden, device=device)

    def all(self, norm: Norm, residual: torch.Tensor, y: torch.Tensor) -> None:
        """Write residual + the layer to `y`."""
        self._route(norm)
        self._inner_values()
        self._outputs(residual, y)

    def _route(self, norm: Norm) -> None:
        launch, weights = self._launch, self._weights
        programs = triton.cdiv(self._experts, launch.router_rows) + launch.router_tokens
        self._start(
            route_kernel, (programs, triton.cdiv(self._tokens, launch.router_tokens)),
            self._x, norm.weight, norm.epsilon, weights.router, weights.shared_gate,
            self._normed, self._scores, self._chosen, self._shares, self._openings, self._counters, self._tokens,
            HIDDEN=self._hidden, EXPERTS=self._experts, EXPERTS_PADDED=padded_experts(self._experts),
            TOP_K=self._top_k, HIDDEN_PADDED=triton.next_power_of_2(self._hidden), BLOCK_T=launch.router_tokens,
            BLOCK_N=launch.router_rows, CHOOSE_T=launch.router_warps, num_warps=launch.router_warps, **self._dependent,
        )  # fmt: skip

    def _inner_values(self) -> None:
        block, weights = self._launch.inner, self._weights
        codes, block_scale, scale, layout = operands(weights.gate_up)
        shared_codes, shared_block_scale, shared_scale, shared_layout = operands(weights.shared_gate_up)
        self._start(
            inner_kernel, (triton.cdiv(2 * max(self._width, self._shared_width), block.rows), self._slots + 1),
            self._normed, codes, block_scale, scale, shared_codes, shared_block_scale, shared_scale,
            self._chosen, self._inner, self._shared_inner, self._tokens,
            HIDDEN=self._hidden, WIDTH=self._width, SHARED_WIDTH=self._shared_width, TOP_K=self._top_k,
            BY_EXPERT=self._by_expert, BLOCK_T=self._block_tokens,
            SHARED_K=inputs_at_once(block, shared_layout), SHARED_FORMAT=shared_layout,
            **block.program(self._block_tokens, self._x, layout, shared_layout), **self._dependent,
        )  # fmt: skip

    def _outputs(self, residual: torch.Tensor, y: torch.Tensor) -> None:
        block = self._launch.outer
        codes, block_scale, scale, layout = operands(self._weights.down)
        shared_codes, shared_block_scale, shared_scale, shared_layout = operands(self._weights.shared_down)
        self._start(
            outer_kernel, (triton.cdiv(self._hidden, block.rows), self._slots + 1),
            self._inner, codes, block_scale, scale,
            self._shared_inner, shared_codes, shared_block_scale, shared_scale,
            self._chosen, self._shares, self._openings, self._parts, residual, y,
            self._counters, self._tokens,
            HIDDEN=self._hidden, WIDTH=self._width, SHARED_WIDTH=self._shared_width, TOP_K=self._top_k,
            BY_EXPERT=self._by_expert, BLOCK_T=self._block_tokens, BLOCK_SUM=self._launch.sum_tokens,
            SHARED_K=inputs_at_once(block, shared_layout), SHARED_FORMAT=shared_layout,
            **block.program(self._block_tokens, self._x, layout, shared_layout), **self._dependent,
        )  # fmt: skip
