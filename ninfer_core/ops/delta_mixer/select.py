"""Which mixer a device gets."""

from __future__ import annotations

from typing import Protocol

import torch

from ninfer_core.api.geometry import Kernels
from ninfer_core.ops.delta_mixer.launch import launch
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


def select(device: torch.device, kernels: Kernels) -> DeltaMixer:
    """The mixer of `device`: Triton on CUDA, unless the reference is asked for."""
    if device.type != "cuda" or kernels == "reference":
        return ReferenceMixer()
    from ninfer_core.ops.delta_mixer.triton import TritonMixer

    return TritonMixer(launch())
