"""Copies of whole pages, whatever their format: what reuse of a prefix needs."""

from __future__ import annotations

import torch


def copy_pages(planes: tuple[torch.Tensor, ...], sources: torch.Tensor, targets: torch.Tensor) -> None:
    """Copy pages `sources` to `targets`, both int64 [n], in all layers; planes [layers, pages, ...]. Bytes are taken
    as they are. No page may be a target twice; one that is both source and target is read before it is written."""
    for plane in planes:
        stored = plane.view(torch.uint8)
        stored.index_copy_(1, targets, stored.index_select(1, sources))
