"""The mixer on CUDA: what is launched, with which blocks."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ninfer_core.ops.delta_mixer.kernels.decode import decode_kernel, fold_kernel
from ninfer_core.ops.delta_mixer.reference import ReferenceMixer
from ninfer_core.ops.delta_mixer.values import MixerColumns, MixerState, MixerWeights


@dataclass(frozen=True, slots=True)
class Launch:
    """Warps of each kernel. `dependent` is whether a decode kernel may begin before the projection it reads has ended
    (programmatic dependent launch)."""

    decode_warps: int
    fold_warps: int
    dependent: bool


class TritonMixer:
    """Implements `DeltaMixer` for convolutions of width 4 and head dimensions that are powers of two; other layers
    take the reference."""

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._reference = ReferenceMixer()

    def prefill(
        self,
        columns: MixerColumns,
        weights: MixerWeights,
        state: MixerState,
        layer: int,
        slots: torch.Tensor,
        lengths: torch.Tensor,
    ) -> torch.Tensor:
        """See the package."""
        return self._reference.prefill(columns, weights, state, layer, slots, lengths)

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
        """See the package."""
        if not _fits(weights):
            return self._reference.decode(columns, weights, state, layer, slots, lengths, accepted)
        qkv, gate, b, a = columns.qkv, columns.gate, columns.b, columns.a
        rows, count = qkv.shape[:2]
        out = torch.empty(rows, count, weights.value_width, dtype=qkv.dtype, device=qkv.device)
        decode_kernel[(weights.value_heads, rows)](
            *(each for x in (qkv, gate, b, a) for each in (x, x.stride(0), x.stride(1))),
            weights.conv,
            weights.a_log,
            weights.dt_bias,
            weights.gate_norm,
            *(x[layer] for x in (state.memory, state.column, state.key, state.update, state.decay)),
            slots,
            lengths,
            accepted,
            out,
            weights.epsilon,
            COLUMNS=count,
            KEY_HEADS=weights.key_heads,
            VALUE_HEADS=weights.value_heads,
            KEY_DIM=weights.key_dim,
            VALUE_DIM=weights.value_dim,
            COLUMN_RING=state.column.shape[2],
            RING=state.key.shape[2],
            SILU=weights.activation == "silu",
            DEPENDENT=self._launch.dependent,
            num_warps=self._launch.decode_warps,
            **({"launch_pdl": True} if self._launch.dependent else {}),
        )
        return out

    def fold(self, state: MixerState, slots: torch.Tensor, lengths: torch.Tensor, accepted: torch.Tensor) -> None:
        """See the package."""
        layers, total_slots, value_heads, key_dim, value_dim = state.memory.shape
        if not (_power_of_two(key_dim) and _power_of_two(value_dim)):
            self._reference.fold(state, slots, lengths, accepted)
            return
        fold_kernel[(value_heads, slots.shape[0], layers)](
            state.memory,
            state.key,
            state.update,
            state.decay,
            slots,
            lengths,
            accepted,
            total_slots,
            KEY_HEADS=state.key.shape[3],
            VALUE_HEADS=value_heads,
            KEY_DIM=key_dim,
            VALUE_DIM=value_dim,
            RING=state.key.shape[2],
            num_warps=self._launch.fold_warps,
        )


def _fits(weights: MixerWeights) -> bool:
    return weights.conv.shape[1] == 4 and _power_of_two(weights.key_dim) and _power_of_two(weights.value_dim)


def _power_of_two(number: int) -> bool:
    return number & (number - 1) == 0
