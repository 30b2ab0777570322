"""The expert feed-forward layer: routed experts, and one shared expert behind a gate of its own."""

from __future__ import annotations

import torch

from ninfer_core.ops import moe
from ninfer_core.ops.activation import sigmoid
from ninfer_core.ops.linear import dense, linear
from ninfer_models.qwen_hybrid.config import Experts
from ninfer_models.qwen_hybrid.layers import DenseFeedForward, Pass
from ninfer_models.qwen_hybrid.resident import layer_prefix
from ninfer_models.qwen_hybrid.weights import Weights


class ExpertFeedForward:
    """Σ weight · expert(x) + sigmoid(shared_gate(x)) · shared(x)."""

    def __init__(self, experts: Experts, weights: Weights, layer: int) -> None:
        ours = layer_prefix(layer)
        self._per_token = experts.per_token
        self._router = weights.matrices[f"{ours}router"]
        self._gate_up = weights.matrices[f"{ours}experts_gate_up"]
        self._down = weights.matrices[f"{ours}experts_down"]
        self._shared = DenseFeedForward(weights, f"{ours}shared_")
        self._shared_gate = weights.matrices[f"{ours}shared_gate"]

    def __call__(self, x: torch.Tensor, run: Pass) -> torch.Tensor:
        tokens = x.flatten(0, 1)
        routing = moe.route(tokens, dense(self._router, x.dtype), self._per_token, run.row_class)
        run_experts = moe.prefill if run.prefill else moe.decode
        routed = run_experts(tokens, dense(self._gate_up, x.dtype), dense(self._down, x.dtype), routing).view(x.shape)
        opening = sigmoid(linear(x, self._shared_gate, run.row_class).float())
        return (routed + opening * self._shared(x, run).float()).to(x.dtype)
