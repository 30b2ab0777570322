"""The launch that writes the best keys of groups of tokens, for the kernels that find the best tokens through them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import triton

from ninfer_core.ops.kernels.groups import row_maxima

if TYPE_CHECKING:
    from ninfer_core.ops.sample import ChosenRows


@dataclass(frozen=True, slots=True)
class Launch:
    """Constants of the launches: tokens of a group, groups of a block, both powers of two; warps of a program that
    writes maxima and of one that draws."""

    group_tokens: int
    block_groups: int
    maxima_warps: int
    draw_warps: int

    def blocks(self, token_domain: int) -> int:
        return -(-token_domain // (self.group_tokens * self.block_groups))

    def shapes(self, token_domain: int, most: int) -> dict[str, int]:
        """Of the kernels that find up to `most` tokens through maxima."""
        return {
            "GROUP": self.group_tokens,
            "BLOCK": self.block_groups,
            "ALL_BLOCKS": triton.next_power_of_2(self.blocks(token_domain)),
            "RANKS": triton.next_power_of_2(most),
        }


LAUNCH = Launch(group_tokens=128, block_groups=8, maxima_warps=4, draw_warps=8)
"""For vocabularies of up to 262,144 tokens, whose blocks are no more than what one of them is cut into."""


def write_maxima(
    launch: Launch,
    logits: torch.Tensor,
    rows: ChosenRows,
    drafts: torch.Tensor | None = None,
    draft_counts: torch.Tensor | None = None,
) -> torch.Tensor:
    """logits [rows * columns, vocabulary_rows] -> maxima int64 [rows * columns, numbers of a row]. With `drafts`
    [rows, columns - 1], of which the first `draft_counts` [rows] count, those before a column are counted."""
    all_columns, blocks = logits.shape[0], launch.blocks(rows.token_domain)
    maxima = torch.empty(all_columns, blocks * (launch.block_groups + 1), dtype=torch.int64, device=logits.device)
    # Products and sums are rounded one by one, as in torch: a fused one would order penalised logits differently.
    row_maxima[(blocks, all_columns)](
        logits,
        logits.stride(0),
        rows.counts,
        rows.counts.stride(0),
        rows.slots,
        rows.table.numbers,
        drafts,
        draft_counts,
        maxima,
        rows.positions.shape[1],
        rows.token_domain,
        blocks,
        GROUP=launch.group_tokens,
        BLOCK=launch.block_groups,
        num_warps=launch.maxima_warps,
        enable_fp_fusion=False,
    )
    return maxima
