"""Acceptance in three launches: the best keys of groups of tokens, a judgement of every column by itself, and what
follows of it for a row."""

from __future__ import annotations

import torch
import triton

from ninfer_core.ops.accept.kernels.judge import judge, settle
from ninfer_core.ops.accept.reference import Accepted, Drafts
from ninfer_core.ops.kernels.maxima import Launch, write_maxima
from ninfer_core.ops.sample import CANDIDATES, ChosenRows


class TritonAcceptor:
    """Implements `Acceptor`."""

    __slots__ = ("_launch",)

    def __init__(self, launch: Launch) -> None:
        self._launch = launch

    def accept(
        self,
        logits: torch.Tensor,
        drafts: Drafts,
        rows: ChosenRows,
        candidates: torch.Tensor,
        offered: torch.Tensor,
    ) -> Accepted:
        """See `Acceptor`."""
        count, columns = rows.positions.shape
        token_ids, draft_counts = drafts.token_ids.contiguous(), drafts.counts.contiguous()
        maxima = write_maxima(self._launch, logits, rows, token_ids, draft_counts)
        judged = self._judged(logits, drafts, rows, maxima)
        packed = torch.empty(count, 2 + columns, dtype=torch.int64, device=logits.device)
        settle[(count,)](
            token_ids,
            draft_counts,
            rows.slots,
            judged,
            packed,
            candidates,
            offered,
            candidates.stride(0),
            columns,
            MOST_COLUMNS=triton.next_power_of_2(columns),
            num_warps=1,
        )
        return Accepted(packed)

    def _judged(self, logits: torch.Tensor, drafts: Drafts, rows: ChosenRows, maxima: torch.Tensor) -> torch.Tensor:
        """int64 [3, rows * columns]; see `judge`."""
        launch, table, all_columns = self._launch, rows.table, maxima.shape[0]
        law_ids = None if drafts.law_ids is None else drafts.law_ids.contiguous()
        probabilities = None if drafts.probabilities is None else drafts.probabilities.contiguous()
        width = 1 if law_ids is None else law_ids.shape[2]
        judged = torch.empty(3, all_columns, dtype=torch.int64, device=logits.device)
        judge[(all_columns,)](
            logits,
            logits.stride(0),
            rows.counts,
            rows.counts.stride(0),
            rows.slots,
            rows.positions.contiguous(),
            table.numbers,
            table.top_k,
            table.seeds,
            drafts.token_ids.contiguous(),
            drafts.counts.contiguous(),
            law_ids,
            probabilities,
            maxima,
            judged,
            rows.positions.shape[1],
            rows.token_domain,
            launch.blocks(rows.token_domain),
            width,
            **launch.shapes(rows.token_domain, CANDIDATES),
            WIDTH=triton.next_power_of_2(width),
            num_warps=launch.draw_warps,
            enable_fp_fusion=False,
        )
        return judged
