"""Mixture of experts in plain torch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

from ninfer_core.ops.linear import linear
from ninfer_core.ops.swiglu import swiglu


@dataclass(frozen=True, slots=True)
class Routing:
    """Which experts each token goes to, and how much of each it takes."""

    experts: torch.Tensor
    weights: torch.Tensor


def route(x: torch.Tensor, router: torch.Tensor, top_k: int, row_class: int = 0) -> Routing:
    """x [tokens, hidden] -> the routing of every token."""
    probability = torch.softmax(linear(x, router, row_class).float(), dim=-1)
    weights, experts = probability.sort(dim=-1, descending=True, stable=True)
    weights = weights[:, :top_k]
    return Routing(experts[:, :top_k], weights / weights.sum(-1, keepdim=True))


def decode(x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, routing: Routing) -> torch.Tensor:
    """x [tokens, hidden] -> float32 [tokens, hidden]; for few tokens."""
    total = torch.zeros_like(x, dtype=torch.float32)
    for choice in range(routing.experts.shape[1]):
        expert = routing.experts[:, choice]
        inner = swiglu(torch.bmm(x.unsqueeze(1), gate_up.index_select(0, expert).mT))
        part = torch.bmm(inner, down.index_select(0, expert).mT).squeeze(1)
        total = total + part.float() * routing.weights[:, choice : choice + 1]
    return total


def prefill(x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, routing: Routing) -> torch.Tensor:
    """x [tokens, hidden] -> float32 [tokens, hidden]; for many tokens."""
    tokens, top_k = routing.experts.shape
    ordered, order = routing.experts.flatten().sort(stable=True)
    ends = torch.searchsorted(ordered, torch.arange(gate_up.shape[0], device=x.device), right=True).int()
    inner = swiglu(functional.grouped_mm(x[order // top_k], gate_up.mT, offs=ends))
    parts = functional.grouped_mm(inner, down.mT, offs=ends)
    unordered = torch.empty_like(parts).index_copy_(0, order, parts)
    weighted = unordered.view(tokens, top_k, x.shape[1]).float() * routing.weights.unsqueeze(-1)
    return weighted.sum(1)
