"""The walk in four launches: only the last one waits from draft to draft, and it reads 64 bytes for each."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ninfer_core.ops.draft_walk.kernels.walk import candidates, logit_maxima, score_edges, walk
from ninfer_core.ops.draft_walk.reference import Codebooks, LogitTransform, Walk
from ninfer_core.ops.kernels.maxima import LAUNCH, Launch
from ninfer_core.ops.workspace.draft_walk import CHOICES

CODES = 16
"""Elements of codes that are multiplied at once."""


@dataclass(frozen=True, slots=True)
class TritonWalk:
    """Implements `DraftWalk`."""

    launch: Launch = LAUNCH

    def __call__(
        self,
        logits: torch.Tensor,
        proposed_ids: torch.Tensor | None,
        states: torch.Tensor,
        codebooks: Codebooks,
        transform: LogitTransform,
        anchors: torch.Tensor,
        positions: torch.Tensor,
        temperature: torch.Tensor,
        seeds: torch.Tensor,
    ) -> Walk:
        """See the package."""
        rows, drafts, _ = logits.shape
        law_ids, unary = self._candidates(logits.flatten(0, 1), proposed_ids, transform)
        scores = torch.empty(rows * drafts, CHOICES, CHOICES, dtype=torch.float32, device=logits.device)
        rank = states.shape[2]
        score_edges[(rows * drafts,)](
            law_ids,
            unary,
            anchors.contiguous(),
            states.contiguous(),
            codebooks.predecessor,
            codebooks.successor,
            scores,
            drafts,
            RANK=rank,
            RANKS=CHOICES,
            CHUNK=min(rank, CODES),
            num_warps=4,
        )
        token_ids = torch.empty(rows, drafts, dtype=torch.int64, device=logits.device)
        probabilities = torch.empty(rows, drafts, CHOICES, dtype=torch.float32, device=logits.device)
        walk[(rows,)](
            scores,
            law_ids,
            positions.contiguous(),
            temperature.contiguous(),
            seeds.contiguous(),
            token_ids,
            probabilities,
            drafts,
            RANKS=CHOICES,
            num_warps=1,
        )
        return Walk(token_ids, law_ids.view(rows, drafts, CHOICES), probabilities)

    def _candidates(
        self, logits: torch.Tensor, proposed_ids: torch.Tensor | None, transform: LogitTransform
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """logits [n, proposed] -> tokens int64 and logits as scores have them float32, both [n, CHOICES]."""
        launch, (count, proposed) = self.launch, logits.shape
        blocks = launch.blocks(proposed)
        maxima = torch.empty(count, blocks * (launch.block_groups + 1), dtype=torch.int64, device=logits.device)
        tile = {"GROUP": launch.group_tokens, "BLOCK": launch.block_groups}
        logit_maxima[(blocks, count)](
            logits, logits.stride(0), maxima, proposed, blocks, **tile, num_warps=launch.maxima_warps
        )
        law_ids = torch.empty(count, CHOICES, dtype=torch.int64, device=logits.device)
        unary = torch.empty(count, CHOICES, dtype=torch.float32, device=logits.device)
        candidates[(count,)](
            logits,
            logits.stride(0),
            proposed_ids,
            maxima,
            law_ids,
            unary,
            proposed,
            blocks,
            transform.multiplier,
            transform.softcap,
            **launch.shapes(proposed, CHOICES),
            num_warps=launch.draw_warps,
        )
        return law_ids, unary
