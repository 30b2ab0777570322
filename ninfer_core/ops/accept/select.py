"""Which acceptor a device gets."""

from __future__ import annotations

from typing import Protocol

import torch

from ninfer_core.api.geometry import Kernels
from ninfer_core.ops.accept.reference import Accepted, Drafts, accept
from ninfer_core.ops.sample import ChosenRows


class Acceptor(Protocol):
    """`accept` with the tokens, and how many of them count, also written where the program keeps these of a slot."""

    def accept(
        self,
        logits: torch.Tensor,
        drafts: Drafts,
        rows: ChosenRows,
        candidates: torch.Tensor,
        offered: torch.Tensor,
    ) -> Accepted:
        """The operation on one device; the package says what it does."""
        ...


class ReferenceAcceptor:
    """Implements `Acceptor` with the torch reference."""

    def accept(
        self,
        logits: torch.Tensor,
        drafts: Drafts,
        rows: ChosenRows,
        candidates: torch.Tensor,
        offered: torch.Tensor,
    ) -> Accepted:
        """See `Acceptor`."""
        accepted = accept(logits, drafts, rows)
        candidates[:, : rows.positions.shape[1]].index_copy_(0, rows.slots, accepted.tokens)
        offered.index_copy_(0, rows.slots, accepted.offered)
        return accepted


def select(device: torch.device, kernels: Kernels) -> Acceptor:
    """The acceptor of `device`: Triton on CUDA, unless the reference is asked for."""
    if device.type != "cuda" or kernels == "reference":
        return ReferenceAcceptor()
    from ninfer_core.ops.accept.triton import TritonAcceptor
    from ninfer_core.ops.kernels.maxima import LAUNCH

    return TritonAcceptor(LAUNCH)
