"""The experts of very few tokens in dense matrices: the launches of `kernels.pairs`."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton

from ninfer_core.ops.linear.matrix import DenseMatrix
from ninfer_core.ops.moe.kernels.pairs import inner_pairs, outer_pairs
from ninfer_core.ops.moe.launch import start
from ninfer_core.ops.moe.router import Chosen
from ninfer_core.ops.moe.weights import ExpertWeights


@dataclass(frozen=True, slots=True)
class PairLaunch:
    """Launch parameters: for the first kernel inner values of a program, stages, whether the second one may begin
    beside it, and warps; for the second kernel the weights that a program holds at once, and warps. No bit of a result
    depends on the first three."""

    inner_values: int
    inner_stages: int
    inner_early: bool
    inner_warps: int
    outer_weights: int
    outer_warps: int


INNER_INPUTS = 256
"""Inputs of a step: the order of a sum is made of it."""


def takes(weights: ExpertWeights) -> bool:
    """Whether these kernels can read the weights."""
    matrices = (weights.gate_up, weights.down, weights.shared_gate_up, weights.shared_down)
    return all(isinstance(matrix, DenseMatrix) for matrix in matrices)


def add_pairs(
    chosen: Chosen,
    weights: ExpertWeights,
    launch: PairLaunch,
    options: dict[str, object],
    residual: torch.Tensor,
    y: torch.Tensor,
) -> None:
    """Write residual + what the experts give to y [tokens, hidden]. `options` are those of the launch that chose."""
    tokens, hidden = chosen.normed.shape
    width, shared_width, top_k = weights.down.inputs, weights.shared_down.inputs, weights.per_token
    inner = torch.empty(tokens, top_k + 1, max(width, shared_width), device=y.device)
    gate_up, down, shared_gate_up, shared_down = (
        matrix.tensors[0] for matrix in (weights.gate_up, weights.down, weights.shared_gate_up, weights.shared_down)
    )
    start(
        inner_pairs, (tokens * (top_k + 1), triton.cdiv(max(width, shared_width), launch.inner_values)),
        chosen.normed, gate_up, shared_gate_up, chosen.experts, chosen.shares, chosen.openings, inner,
        HIDDEN=hidden, WIDTH=width, SHARED_WIDTH=shared_width, TOP_K=top_k, BLOCK_N=launch.inner_values,
        BLOCK_K=INNER_INPUTS, STAGES=launch.inner_stages, EARLY=launch.inner_early,
        num_warps=launch.inner_warps, **options,
    )  # fmt: skip
    padded = triton.next_power_of_2(width)
    outputs = max(1, launch.outer_weights // (triton.next_power_of_2(top_k) * padded))
    start(
        outer_pairs, (tokens, triton.cdiv(hidden, outputs)),
        inner, down, shared_down, chosen.experts, residual, y,
        HIDDEN=hidden, WIDTH=width, WIDTH_PADDED=padded, SHARED_WIDTH=shared_width,
        SHARED_PADDED=triton.next_power_of_2(shared_width), TOP_K=top_k, BLOCK_N=outputs,
        num_warps=launch.outer_warps, **options,
    )  # fmt: skip
