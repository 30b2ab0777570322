"""Sampling in two launches.

The first writes the best keys of groups of tokens, reading the logits once. The second, one program for a row, finds
the best tokens through them and draws.

What a row costs depends on its own settings alone: a greedy row looks for one token.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from ninfer_core.ops.sample.kernels.groups import best_token, best_tokens, row_maxima
from ninfer_core.ops.sample.kernels.law import drawn, settings_of, uniform_of
from ninfer_core.ops.sample.random import Purpose
from ninfer_core.ops.sample.reference import CANDIDATES
from ninfer_core.ops.sample.table import ChosenRows

RANKS = triton.next_power_of_2(CANDIDATES)


@triton.jit(do_not_specialize=["columns"])
def draw(
    logits,
    logits_stride,
    counts,
    counts_stride,
    slots,
    positions,
    numbers,
    top_k,
    seeds,
    maxima,
    tokens,
    candidates,
    candidates_stride,
    columns,
    token_domain,
    blocks,
    purpose,
    GROUP: tl.constexpr,
    BLOCK: tl.constexpr,
    ALL_BLOCKS: tl.constexpr,
    RANKS: tl.constexpr,
):
    """tokens[row] = candidates[slot, column] = the token of one row."""
    row = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + row // columns)
    temperature, top_p, min_p, presence, frequency, counted = settings_of(numbers, slot, token_domain)
    of_row = maxima + row * blocks * (BLOCK + 1)
    if temperature > 0:
        best = best_tokens(
            logits + row * logits_stride,
            counts + slot * counts_stride,
            presence,
            frequency,
            counted,
            None,
            0,
            of_row,
            tl.load(top_k + slot).to(tl.int32),
            token_domain,
            blocks,
            GROUP,
            BLOCK,
            ALL_BLOCKS,
            RANKS,
        )
        random = uniform_of(tl.load(seeds + slot), tl.load(positions + row), purpose)
        token = drawn(best, temperature, top_p, min_p, random, RANKS)
    else:
        token = best_token(of_row, blocks, ALL_BLOCKS)
    token = token.to(tl.int64)
    tl.store(tokens + row, token)
    tl.store(candidates + slot * candidates_stride + row % columns, token)


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

    def shapes(self, token_domain: int) -> dict[str, int]:
        """Of the kernels that read maxima."""
        return {
            "GROUP": self.group_tokens,
            "BLOCK": self.block_groups,
            "ALL_BLOCKS": triton.next_power_of_2(self.blocks(token_domain)),
            "RANKS": RANKS,
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
            **launch.shapes(rows.token_domain),
            num_warps=launch.draw_warps,
            enable_fp_fusion=False,
        )
        return tokens
