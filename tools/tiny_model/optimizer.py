"""Muon for the hidden matrices, AdamW for everything else.

Muon replaces the momentum of a matrix by a nearby orthogonal matrix, so all directions learn at one speed; a small
model on synthetic text gets about twice as far per step with it as with AdamW alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

# Quintic iteration coefficients that push all singular values towards one in five rounds, starting below one.
QUINTIC = (3.4445, -4.7750, 2.0315)


def orthogonal(stack: Tensor, rounds: int = 5) -> Tensor:
    """[count, rows, columns] -> about orthogonal, in bfloat16."""
    x = stack.bfloat16()
    wide = x.shape[-2] > x.shape[-1]
    if wide:
        x = x.transpose(-1, -2)
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    first, third, fifth = QUINTIC
    for _ in range(rounds):
        square = x @ x.transpose(-1, -2)
        x = first * x + (third * square + fifth * square @ square) @ x
    return x.transpose(-1, -2) if wide else x


class Muon:
    """Matrices of one shape are stacked and updated together."""

    def __init__(self, matrices: Iterable[Tensor], *, momentum: float = 0.95, decay: float = 0.01) -> None:
        shapes: defaultdict[torch.Size, list[Tensor]] = defaultdict(list)
        for matrix in matrices:
            shapes[matrix.shape].append(matrix)
        self.groups = [(group, torch.zeros_like(torch.stack(group))) for group in shapes.values()]
        self.momentum = momentum
        self.decay = decay

    @torch.no_grad()
    def step(self, rate: Tensor) -> None:
        for group, velocity in self.groups:
            gradient = torch.stack([matrix.grad for matrix in group if matrix.grad is not None])
            velocity.lerp_(gradient, 1 - self.momentum)
            # Looks one step ahead (Nesterov), then scales so that tall and wide matrices move alike.
            update = orthogonal(gradient.lerp(velocity, self.momentum))
            scale = max(1.0, update.shape[-2] / update.shape[-1]) ** 0.5
            for matrix, change in zip(group, update, strict=True):
                matrix.mul_(1 - rate * self.decay).sub_(change * (rate * scale))


class Optimizer:
    """Both halves behind one `step(share)`, where share in [0, 1] scales the peak rates.

    The share is a tensor and nothing waits for the device, so a step can be recorded in a CUDA graph.
    """

    def __init__(self, model: nn.Module, *, muon_rate: float, adam_rate: float) -> None:
        named = dict(model.named_parameters())
        hidden = hidden_matrices(named)
        rest = [weight for name, weight in named.items() if name not in hidden]
        self.muon = Muon(hidden.values())
        self.muon_rate, self.adam_rate = muon_rate, adam_rate
        self.adam_now = torch.tensor(0.0, device=rest[0].device)
        cuda = rest[0].is_cuda
        self.adam = torch.optim.AdamW(
            rest,
            lr=self.adam_now,
            betas=(0.9, 0.98),
            weight_decay=0.0,
            fused=cuda,
            foreach=False,
            capturable=cuda,
        )

    def step(self, share: Tensor) -> None:
        self.muon.step(self.muon_rate * share)
        self.adam_now.copy_(self.adam_rate * share)
        self.adam.step()

    def moments(self) -> dict[str, Tensor]:
        """All that it remembers, by names that depend on the model alone."""
        named = {f"muon.{index}": velocity for index, (_, velocity) in enumerate(self.muon.groups)}
        for index, weight in enumerate(self._by_adam()):
            named |= {f"adam.{index}.{name}": value for name, value in self.adam.state[weight].items()}
        return named

    def load(self, moments: Mapping[str, Tensor]) -> None:
        """What `moments` gave, before the first step."""
        for index, (_, velocity) in enumerate(self.muon.groups):
            velocity.copy_(moments[f"muon.{index}"])
        for index, weight in enumerate(self._by_adam()):
            prefix = f"adam.{index}."
            # `load_state_dict` would put a copy in the place of the rate that `step` sets.
            self.adam.state[weight] = {
                name.removeprefix(prefix): value.to(self.adam_now.device)
                for name, value in moments.items()
                if name.startswith(prefix)
            }

    def _by_adam(self) -> list[nn.Parameter]:
        weights: list[nn.Parameter] = self.adam.param_groups[0]["params"]
        return weights


def hidden_matrices(named: dict[str, nn.Parameter]) -> dict[str, nn.Parameter]:
    """The large products of the layers; the narrow gate projections behave more like vectors."""
    small = (
        "conv1d",
        "mlp.gate.weight",
        "shared_expert_gate",
        "embed_tokens",
        "in_proj_a",
        "in_proj_b",
        "kernel_projection",
        "candidate_selector",
    )
    return {
        name: weight for name, weight in named.items() if weight.dim() >= 2 and not any(part in name for part in small)
    }


def schedule(progress: float, *, warm_up: float = 0.015, cooling: float = 0.5, floor: float = 0.0) -> float:
    """Share of the peak rate: a rise, a plateau, then a straight line to `floor` over the last `cooling` part."""
    return max(floor, min(1.0, progress / warm_up + 0.02, (1 - progress) / cooling))
