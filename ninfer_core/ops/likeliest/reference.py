"""The likeliest token in plain torch."""

from __future__ import annotations

import torch


def likeliest(logits: torch.Tensor, token_ids: torch.Tensor | None) -> torch.Tensor:
    """logits [rows, columns, proposed] -> int64 [rows, columns]; see the package."""
    best = logits.argmax(-1)
    return best if token_ids is None else token_ids[best]
