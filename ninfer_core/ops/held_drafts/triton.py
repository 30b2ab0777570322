"""Drafts that can be looked at, in one launch."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from ninfer_core.ops.held_drafts.reference import HeldDrafts


def hold_drafts(
    token_ids: torch.Tensor,
    meant: torch.Tensor | None,
    law_ids: torch.Tensor | None,
    anchors: torch.Tensor,
    token_domain: int,
) -> HeldDrafts:
    """See the package."""
    rows, drafts = token_ids.shape
    width = 0 if law_ids is None else law_ids.shape[2]
    held = torch.empty(rows, drafts, dtype=torch.int64, device=token_ids.device)
    counts = torch.empty(rows, dtype=torch.int64, device=token_ids.device)
    columns = torch.empty(rows, 1 + drafts, dtype=torch.int64, device=token_ids.device)
    hold_row[(rows,)](
        token_ids.contiguous(),
        None if meant is None else meant.contiguous(),
        None if law_ids is None else law_ids.contiguous(),
        anchors.contiguous(),
        held,
        counts,
        columns,
        token_domain,
        drafts,
        width,
        MOST_DRAFTS=triton.next_power_of_2(drafts),
        MOST_WIDTH=triton.next_power_of_2(width + 1),
        num_warps=4 if width else 1,
    )
    return HeldDrafts(held, counts, columns)


@triton.jit(do_not_specialize=["token_domain", "drafts", "width"])
def hold_row(
    token_ids,
    meant,
    law_ids,
    anchors,
    held,
    counts,
    columns,
    token_domain,
    drafts,
    width,
    MOST_DRAFTS: tl.constexpr,
    MOST_WIDTH: tl.constexpr,
):
    """One row. `meant` and `law_ids` may be None; MOST_WIDTH is a power of two above the width of a law."""
    row = tl.program_id(0).to(tl.int64)
    place = tl.arange(0, MOST_DRAFTS)
    here = place < drafts
    draft = tl.load(token_ids + row * drafts + place, mask=here, other=-1)
    known = (draft >= 0) & (draft < token_domain)
    first = tl.min(tl.where(known, MOST_DRAFTS, place), axis=0).to(tl.int64)
    count = tl.minimum(first, drafts)
    token = tl.where(known, draft, 0)
    if law_ids is not None:
        count = tl.minimum(first + 1, drafts)
        if first < drafts:
            entry = tl.arange(0, MOST_WIDTH)
            of_law = (row * drafts + place[:, None]) * width + entry[None, :]
            law = tl.load(law_ids + of_law, mask=here[:, None] & (entry < width)[None, :], other=-1)
            # Numbers of MOST_WIDTH that a law has; the lowest of the others is at most its width.
            has = tl.max((law[:, :, None] == entry[None, None, :]).to(tl.int32), axis=1)
            spare = tl.min(tl.where(has != 0, MOST_WIDTH, entry[None, :]), axis=1)
            token = tl.where(known, draft, spare.to(tl.int64))
    if meant is not None:
        count = tl.minimum(count, tl.maximum(tl.load(meant + row), 0))
    tl.store(held + row * drafts + place, token, mask=here)
    tl.store(counts + row, count)
    tl.store(columns + row * (drafts + 1), tl.load(anchors + row))
    tl.store(columns + row * (drafts + 1) + 1 + place, token, mask=here)
