"""The kernels by kind of work, and the table of their launch parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from ninfer_core.ops.linear.reference import Norm
from ninfer_core.ops.linear.select import Linear
from ninfer_core.ops.moe.few import COUNTERS, FewLaunch, FewTokens
from ninfer_core.ops.moe.launch import Block
from ninfer_core.ops.moe.many import COUNTS, ManyLaunch, ManyTable, ManyTokens
from ninfer_core.ops.moe.pairs import PairLaunch
from ninfer_core.ops.moe.router import RouterLaunch
from ninfer_core.ops.moe.weights import ExpertWeights
from ninfer_core.ops.workspace.moe import takes_few

MOST_EXPERTS = 4096
"""Experts that there are counters for."""

FEW = FewLaunch(
    router=RouterLaunch(rows=4, tokens=2, warps=4, dependent=True),
    one_token=PairLaunch(
        inner_values=8, inner_stages=7, inner_early=True, inner_warps=4, outer_weights=1 << 14, outer_warps=4
    ),
    several=PairLaunch(
        inner_values=4, inner_stages=6, inner_early=False, inner_warps=4, outer_weights=1 << 14, outer_warps=4
    ),
    pair_class=8,
    inner=Block(rows=64, inputs=128, warps=4, stages=5),
    outer=Block(rows=64, inputs=128, warps=4, stages=3),
    sum_tokens=8,
)
"""Measured on an H200 with 256 experts of 512 · 2048, eight to a token. A layer between linear maps of its model takes
42.6 us with them for one token (48.5 in tiles), 118.8 for eight (122.3). Of `pair_class` 32, four tokens would gain a
tenth and thirty-two lose a quarter: pairs read an expert as often as it was chosen."""

ANY_NUMBER = 1 << 62

MANY = ManyTable(
    dense=(
        (1536, ManyLaunch(64, inner=Block(128, 64, warps=4, stages=4), outer=Block(128, 64, warps=4, stages=4))),
        (ANY_NUMBER, ManyLaunch(128, inner=Block(256, 64, warps=8, stages=4), outer=Block(256, 64, warps=8, stages=4))),
    ),
    coded=(
        (ANY_NUMBER, ManyLaunch(64, inner=Block(128, 128, warps=4, stages=4), outer=Block(128, 64, warps=4, stages=4))),
    ),
    nvfp4=(
        (4096, ManyLaunch(64, inner=Block(128, 128, warps=4, stages=3), outer=Block(128, 128, warps=4, stages=3))),
        (ANY_NUMBER, ManyLaunch(128, Block(256, 128, warps=8, stages=3), Block(256, 128, warps=8, stages=3))),
    ),
)
"""Measured there too: the groups of a longer prefill fill larger tiles."""


@dataclass(frozen=True, slots=True)
class ByTokens:
    """Implements `FeedForward`: one route for prefills, and one for decodes, whose tokens are at most their class."""

    few: FewTokens
    many: ManyTokens

    def __call__(
        self, x: torch.Tensor, weights: ExpertWeights, row_class: int = 0, *, norm: Norm, residual: torch.Tensor
    ) -> torch.Tensor:
        """See the package."""
        route = self.few if takes_few(row_class) else self.many
        return route(x, weights, row_class, norm=norm, residual=residual)


def kernel_routes(device: torch.device, linear: Linear) -> ByTokens:
    """The routes of a device, with counters of their own there."""
    # The interpreter runs one launch after the other.
    launch = replace(FEW, router=replace(FEW.router, dependent=device.type == "cuda"))
    few = FewTokens(launch, torch.zeros(COUNTERS, dtype=torch.int32, device=device))
    counters = torch.zeros(COUNTS + MOST_EXPERTS, dtype=torch.int32, device=device)
    return ByTokens(few, ManyTokens(MANY, linear, counters))
