"""The weights of one expert feed-forward layer."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ninfer_core.ops.linear.matrix import Matrix


@dataclass(frozen=True, slots=True)
class ExpertWeights:
    """Routed experts behind a router, and one shared expert behind a gate of its own.

    router          [experts, hidden]                  activation dtype
    gate_up         W [experts, 2·width, hidden]       a `Matrix`, gate rows first
    down            W [experts, hidden, width]         a `Matrix`
    shared_gate     [1, hidden]                        activation dtype
    shared_gate_up  W [2·shared width, hidden]         a `Matrix`, gate rows first
    shared_down     W [hidden, shared width]           a `Matrix`
    per_token       experts that a token goes to
    """

    router: torch.Tensor
    gate_up: Matrix
    down: Matrix
    shared_gate: torch.Tensor
    shared_gate_up: Matrix
    shared_down: Matrix
    per_token: int
