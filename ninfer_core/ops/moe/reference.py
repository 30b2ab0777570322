"""Mixture of experts in plain torch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

from ninfer_core.ops.activation import sigmoid
from ninfer_core.ops.linear.formats import dense
from ninfer_core.ops.linear.matrix import DenseMatrix, Matrix
from ninfer_core.ops.linear.reference import Norm, linear
from ninfer_core.ops.moe.weights import ExpertWeights
from ninfer_core.ops.rms_norm import rms_norm
from ninfer_core.ops.swiglu import swiglu


@dataclass(frozen=True, slots=True)
class Routing:
    """Which experts each token goes to, and how much of each it takes."""

    experts: torch.Tensor
    weights: torch.Tensor


def feed_forward(
    x: torch.Tensor, weights: ExpertWeights, row_class: int = 0, *, norm: Norm, residual: torch.Tensor
) -> torch.Tensor:
    """x [..., hidden] -> residual + experts(norm(x)), [..., hidden]; see the package."""
    normed = rms_norm(x, norm.weight, norm.epsilon)
    tokens = normed.reshape(-1, x.shape[-1])
    routing = route(tokens, weights.router, weights.per_token, row_class)
    routed = (decode if row_class else prefill)(tokens, weights.gate_up, weights.down, routing).view(x.shape)
    opening = sigmoid(linear(normed, weights.shared_gate, row_class).float())
    shared = linear(linear(normed, weights.shared_gate_up, row_class, gated=True), weights.shared_down, row_class)
    return (residual.float() + routed + opening * shared.float()).to(x.dtype)


def route(x: torch.Tensor, router: torch.Tensor, top_k: int, row_class: int = 0) -> Routing:
    """x [tokens, hidden] -> the routing of every token."""
    probability = torch.softmax(linear(x, router, row_class).float(), dim=-1)
    weights, experts = probability.sort(dim=-1, descending=True, stable=True)
    weights = weights[:, :top_k]
    return Routing(experts[:, :top_k], weights / weights.sum(-1, keepdim=True))


def decode(
    x: torch.Tensor, gate_up: Matrix | torch.Tensor, down: Matrix | torch.Tensor, routing: Routing
) -> torch.Tensor:
    """x [tokens, hidden] -> float32 [tokens, hidden]; for few tokens."""
    total = torch.zeros_like(x, dtype=torch.float32)
    for choice in range(routing.experts.shape[1]):
        expert = routing.experts[:, choice]
        inner = swiglu(torch.bmm(x.unsqueeze(1), _chosen(gate_up, expert, x.dtype).mT))
        part = torch.bmm(inner, _chosen(down, expert, x.dtype).mT).squeeze(1)
        total = total + part.float() * routing.weights[:, choice : choice + 1]
    return total


def prefill(
    x: torch.Tensor, gate_up: Matrix | torch.Tensor, down: Matrix | torch.Tensor, routing: Routing
) -> torch.Tensor:
    """x [tokens, hidden] -> float32 [tokens, hidden]; for many tokens."""
    tokens, top_k = routing.experts.shape
    ordered, order = routing.experts.flatten().sort(stable=True)
    ends = torch.searchsorted(ordered, torch.arange(_experts(gate_up), device=x.device), right=True).int()
    inner = swiglu(_grouped(x[order // top_k], gate_up, ends))
    parts = _grouped(inner, down, ends)
    unordered = torch.empty_like(parts).index_copy_(0, order, parts)
    weighted = unordered.view(tokens, top_k, x.shape[1]).float() * routing.weights.unsqueeze(-1)
    return weighted.sum(1)


def _experts(matrix: Matrix | torch.Tensor) -> int:
    return matrix.shape[0] if isinstance(matrix, torch.Tensor) else matrix.tensors[0].shape[0]


def _chosen(matrix: Matrix | torch.Tensor, experts: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Weights [chosen, outputs, inputs] of the experts [chosen]."""
    if isinstance(matrix, torch.Tensor):
        return matrix.index_select(0, experts)
    return dense(type(matrix)(*(tensor[experts] for tensor in matrix.tensors)), dtype)


def _grouped(x: torch.Tensor, matrix: Matrix | torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """x [rows, inputs], the rows of an expert behind each other up to `ends` [experts] -> [rows, outputs].

    Codes are decoded expert by expert, which reads `ends` back to the host."""
    if isinstance(matrix, torch.Tensor | DenseMatrix):
        weight = matrix if isinstance(matrix, torch.Tensor) else matrix.weight
        return functional.grouped_mm(x, weight.mT, offs=ends)
    y = x.new_empty(x.shape[0], matrix.outputs)
    start = 0
    for expert, end in enumerate(ends.tolist()):
        if end > start:
            part = type(matrix)(*(tensor[expert] for tensor in matrix.tensors))
            y[start:end] = functional.linear(x[start:end], dense(part, x.dtype))
        start = end
    return y
