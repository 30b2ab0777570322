"""The mixer as the composition of its three operations, in plain torch."""

from __future__ import annotations

import torch

from ninfer_core.ops import causal_conv, gated_delta
from ninfer_core.ops.delta_mixer.values import MixerColumns, MixerState, MixerWeights
from ninfer_core.ops.gated_delta import DeltaColumns, DeltaRecords
from ninfer_core.ops.gated_rms_norm import gated_rms_norm


class ReferenceMixer:
    """Implements `DeltaMixer` on any device and for any dtype."""

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
        mixed = causal_conv.prefill(columns.qkv, weights.conv, state.column[layer], slots, lengths)
        read = gated_delta.prefill(_delta_columns(mixed, columns, weights), state.memory[layer], slots)
        return _gated(read, columns, weights)

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
        mixed = causal_conv.decode(columns.qkv, weights.conv, state.column[layer], slots, lengths)
        inputs = _delta_columns(mixed, columns, weights)
        records = DeltaRecords(state.key[layer], state.update[layer], state.decay[layer])
        read = gated_delta.decode(inputs, state.memory[layer], records, slots, lengths, accepted)
        return _gated(read, columns, weights)

    def fold(self, state: MixerState, slots: torch.Tensor, lengths: torch.Tensor, accepted: torch.Tensor) -> None:
        """See the package."""
        records = DeltaRecords(state.key, state.update, state.decay)
        gated_delta.fold(state.memory, records, slots, lengths, accepted)


def _delta_columns(mixed: torch.Tensor, columns: MixerColumns, weights: MixerWeights) -> DeltaColumns:
    query, key, value = torch.split(mixed, [weights.key_width, weights.key_width, weights.value_width], dim=-1)
    return DeltaColumns(
        query=_heads(query, weights.key_dim),
        key=_heads(key, weights.key_dim),
        value=_heads(value, weights.value_dim),
        a=columns.a,
        b=columns.b,
        a_log=weights.a_log,
        dt_bias=weights.dt_bias,
    )


def _gated(read: torch.Tensor, columns: MixerColumns, weights: MixerWeights) -> torch.Tensor:
    """read [rows, columns, value_heads, value_dim] -> [rows, columns, value_heads · value_dim]."""
    gate = _heads(columns.gate, weights.value_dim)
    return gated_rms_norm(read, gate, weights.gate_norm, weights.epsilon, weights.activation).flatten(2)


def _heads(x: torch.Tensor, width: int) -> torch.Tensor:
    """[rows, columns, heads · width] -> [rows, columns, heads, width]."""
    return x.view(*x.shape[:-1], -1, width)
