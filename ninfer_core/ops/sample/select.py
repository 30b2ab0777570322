"""Which sampler a device gets."""

from __future__ import annotations

from typing import Protocol

import torch

from ninfer_core.api.geometry import Kernels
from ninfer_core.ops.sample.random import Purpose
from ninfer_core.ops.sample.reference import sample
from ninfer_core.ops.sample.table import ChosenRows


class Sampler(Protocol):
    """`sample` over settings by slot, for rows of one or more columns."""

    def sample(
        self,
        logits: torch.Tensor,
        rows: ChosenRows,
        candidates: torch.Tensor,
        purpose: Purpose = Purpose.TOKEN,
    ) -> torch.Tensor:
        """logits [rows * columns, vocabulary_rows] float32 or bfloat16, the columns of a row behind each other ->
        token ids int64 [rows * columns], which are also written to `candidates` [slots, >= columns] int64."""
        ...


class ReferenceSampler:
    """Implements `Sampler` with the torch reference."""

    def sample(
        self,
        logits: torch.Tensor,
        rows: ChosenRows,
        candidates: torch.Tensor,
        purpose: Purpose = Purpose.TOKEN,
    ) -> torch.Tensor:
        """See `Sampler`."""
        columns = rows.positions.shape[1]
        each, at = rows.slots.repeat_interleave(columns), rows.positions.flatten()
        tokens = sample(logits.float(), rows.table.rows(each), rows.counts, each, at, rows.token_domain, purpose)
        candidates[:, :columns].index_copy_(0, rows.slots, tokens.view(-1, columns))
        return tokens


def select(device: torch.device, kernels: Kernels) -> Sampler:
    """The sampler of `device`: Triton on CUDA, unless the reference is asked for."""
    if device.type != "cuda" or kernels == "reference":
        return ReferenceSampler()
    from ninfer_core.ops.kernels.maxima import LAUNCH
    from ninfer_core.ops.sample.triton import TritonSampler

    return TritonSampler(LAUNCH)
