"""The launch that chooses the experts of few tokens, whichever kernels multiply with them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton

from ninfer_core.ops.linear.reference import Norm
from ninfer_core.ops.moe.kernels.few import route_kernel
from ninfer_core.ops.moe.launch import padded_experts, start
from ninfer_core.ops.moe.weights import ExpertWeights


@dataclass(frozen=True, slots=True)
class RouterLaunch:
    """Programs of `rows` rows of the router and `tokens` tokens, which choose together, a warp for each. `dependent`: a
    launch may begin while the one before it ends."""

    rows: int
    tokens: int
    warps: int
    dependent: bool

    @property
    def options(self) -> dict[str, object]:
        """What every launch of the chain is given. Only the launcher of CUDA knows of the second."""
        return {"DEPENDENT": True, "launch_pdl": True} if self.dependent else {"DEPENDENT": False}


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the experts are given of `tokens` tokens.

    normed    [tokens, hidden]  activation dtype
    experts   [tokens, top_k]   int32, by descending share
    shares    [tokens, top_k]   float32
    openings  [tokens]          float32, how far the gate of the shared expert is open
    """

    normed: torch.Tensor
    experts: torch.Tensor
    shares: torch.Tensor
    openings: torch.Tensor


def choose(x: torch.Tensor, weights: ExpertWeights, norm: Norm, launch: RouterLaunch, counters: torch.Tensor) -> Chosen:
    """x [tokens, hidden], contiguous. `counters` int32 [tiles of tokens at least] are zero, and are so again after."""
    tokens, hidden = x.shape
    experts, top_k = weights.router.shape[0], weights.per_token
    scores = torch.empty(tokens, experts, device=x.device)
    chosen = Chosen(
        normed=torch.empty_like(x),
        experts=torch.empty(tokens, top_k, dtype=torch.int32, device=x.device),
        shares=torch.empty(tokens, top_k, device=x.device),
        openings=torch.empty(tokens, device=x.device),
    )
    programs = triton.cdiv(experts, launch.rows) + launch.tokens
    start(
        route_kernel, (programs, triton.cdiv(tokens, launch.tokens)),
        x, norm.weight, norm.epsilon, weights.router, weights.shared_gate,
        chosen.normed, scores, chosen.experts, chosen.shares, chosen.openings, counters, tokens,
        HIDDEN=hidden, EXPERTS=experts, EXPERTS_PADDED=padded_experts(experts),
        TOP_K=top_k, HIDDEN_PADDED=triton.next_power_of_2(hidden), BLOCK_T=launch.tokens,
        BLOCK_N=launch.rows, CHOOSE_T=launch.warps, num_warps=launch.warps, **launch.options,
    )  # fmt: skip
    return chosen
