"""Which mixer a device gets."""

from __future__ import annotations

from typing import Literal, Protocol

import torch

from ninfer_core.ops.delta_mixer.reference import ReferenceMixer
from ninfer_core.ops.delta_mixer.values import MixerColumns, MixerState, MixerWeights


class DeltaMixer(Protocol):
    """See the package for shapes and effects."""

    def prefill(
        self,
        columns: MixerColumns,
        weights: MixerWeights,
        state: MixerState,
        layer: int,
        slots: torch.Tensor,
        lengths: torch.Tensor,
    ) -> torch.Tensor:
        """-> [rows, columns, value_heads · value_dim]; all columns are committed."""
        ...

    def decode(
        self,
        columns: MixerColumns,
        weights: MixerWeights,
        state: MixerState,
        layer: int,
        slots: torch.Tensor,
        lengths: torch.Tensor,
        accepted: torch.Tensor,
    ) -> torch.Tensor:
        """-> [rows, columns, value_heads · value_dim]; folds the last round, then records this one."""
        ...

    def fold(self, state: MixerState, slots: torch.Tensor, lengths: torch.Tensor, accepted: torch.Tensor) -> None:
        """Commit the accepted columns of the last round in all layers."""
        ...


def select(device: torch.device, kernels: Literal["auto", "reference"]) -> DeltaMixer:
    """The mixer of `device`: the reference, in plain torch."""
    return ReferenceMixer()
