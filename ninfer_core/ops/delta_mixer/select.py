"""Which mixer a device gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import torch

from ninfer_core.api.geometry import Kernels
from ninfer_core.ops.delta_mixer.reference import ReferenceMixer
from ninfer_core.ops.delta_mixer.values import MixerColumns, MixerState, MixerWeights
from ninfer_core.ops.workspace.gated_delta import MEMORY_EVERY

if TYPE_CHECKING:
    from ninfer_core.ops.delta_mixer.triton import Launch


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


def launch(interpreted: bool = False) -> Launch:
    """The table of launch parameters, measured on an H200. `interpreted` leaves out what Triton's interpreter does not
    know."""
    from ninfer_core.ops.delta_mixer.triton import Launch

    return Launch(
        decode_warps=4,
        decode_ahead=0 if interpreted else 264,
        convolve_warps=4,
        convolve_tile=32,
        solve_warps=4,
        solve_registers=0 if interpreted else 168,
        scan_warps=4,
        scan_parts=(32, 64),
        scan_stages=3,
        memory_every=MEMORY_EVERY,
        read_stages=1,
        read_warps=4,
        read_registers=0 if interpreted else 168,
        multiprocessors=132,
        dependent=not interpreted,
        interpreted=interpreted,
    )


def select(device: torch.device, kernels: Kernels) -> DeltaMixer:
    """The mixer of `device`: Triton on CUDA, unless the reference is asked for."""
    if device.type != "cuda" or kernels == "reference":
        return ReferenceMixer()
    from ninfer_core.ops.delta_mixer.triton import TritonMixer

    return TritonMixer(launch())
