"""Loads what a block drafter holds. Everything is read into the place where it stays; numbers that have to be converted
are, a few million at a time."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ninfer_core.api import ArtifactHeader, WeightSource
from ninfer_speculative.block.resident import Piece

_CONVERTED_ELEMENTS = 8 * 2**20
"""Numbers converted at a time: 32 MiB of float32."""


def load_pieces(
    header: ArtifactHeader, pieces: tuple[Piece, ...], source: WeightSource, device: torch.device
) -> Mapping[str, torch.Tensor]:
    """Every piece on `device`, by its name."""
    stored = {tensor.name: getattr(torch, tensor.dtype) for tensor in header.tensors}
    source.expect([part.name for piece in pieces for part in piece.parts])
    tensors: dict[str, torch.Tensor] = {}
    for piece in pieces:
        out = torch.empty(piece.shape, dtype=getattr(torch, piece.dtype), device=device)
        start = 0
        for part in piece.parts:
            stop = start + part.shape[0]
            _read(part.name, stored[part.name], out[start:stop].view(-1), source)
            start = stop
        tensors[piece.name] = out.sub_(1.0) if piece.centred else out
    return tensors


def _read(name: str, stored: torch.dtype, out: torch.Tensor, source: WeightSource) -> None:
    """A whole tensor into `out` [elements] of any dtype."""
    if out.dtype == stored:
        source.read_into(name, out)
        return
    scratch = out.new_empty(min(out.numel(), _CONVERTED_ELEMENTS), dtype=stored)
    for start in range(0, out.numel(), _CONVERTED_ELEMENTS):
        some = out[start : start + _CONVERTED_ELEMENTS]
        source.read_into(name, scratch[: some.numel()], start)
        some.copy_(scratch[: some.numel()])
