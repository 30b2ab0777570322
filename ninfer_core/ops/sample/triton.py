"""Sampling in two launches.

The first writes the best keys of groups of tokens, reading the logits once. The second, one program for a row, finds
the best tokens through them and draws.

What a row costs depends on its own settings alone: a greedy row looks for one token.
"""

from __future__ import annotations

import torch

from ninfer_core.ops.kernels.maxima import Launch, write_maxima
from ninfer_core.ops.sample.kernels.draw import draw
from ninfer_core.ops.sample.random import Purpose
from ninfer_core.ops.sample.reference import CANDIDATES
from ninfer_core.ops.sample.table import ChosenRows


class TritonSampler:
    """Implements `Sampler`."""

    __slots__ = ("_launch",)

    def __init__(self, launch: Launch) -> None:
        self._launch = launch

    def sample(
        self,
        logits: torch.Tensor,
        rows: ChosenRows,
        candidates: torch.Tensor,
        purpose: Purpose = Purpose.TOKEN,
    ) -> torch.Tensor:
        """See `Sampler`."""
        launch, table = self._launch, rows.table
        maxima = write_maxima(launch, logits, rows)
        tokens = torch.empty(logits.shape[0], dtype=torch.int64, device=logits.device)
        draw[(logits.shape[0],)](
            logits,
            logits.stride(0),
            rows.counts,
            rows.counts.stride(0),
            rows.slots,
            rows.positions.contiguous(),
            table.numbers,
            table.top_k,
            table.seeds,
            maxima,
            tokens,
            candidates,
            candidates.stride(0),
            rows.positions.shape[1],
            rows.token_domain,
            launch.blocks(rows.token_domain),
            int(purpose),
            **launch.shapes(rows.token_domain, CANDIDATES),
            num_warps=launch.draw_warps,
            enable_fp_fusion=False,
        )
        return tokens
