"""The two token mixers and the dense feed-forward layer, over the operations of the core."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from ninfer_core.api import ForwardBatch, HeadNorms, RecurrentState, Rotation
from ninfer_core.ops import causal_conv, gated_delta
from ninfer_core.ops.gated_delta import DeltaColumns, DeltaRecords
from ninfer_core.ops.gated_rms_norm import gated_rms_norm
from ninfer_core.ops.linear import linear
from ninfer_core.ops.swiglu import swiglu
from ninfer_models.qwen_hybrid.config import QwenHybridConfig
from ninfer_models.qwen_hybrid.geometry import COLUMN, DECAY, KEY, RECURRENT, UPDATE
from ninfer_models.qwen_hybrid.resident import layer_prefix
from ninfer_models.qwen_hybrid.weights import Weights


@dataclass(frozen=True, slots=True)
class Pass:
    """One run through the layers. `row_class` is that of `ops.linear`; a prefill commits its columns."""

    batch: ForwardBatch
    rotation: Rotation
    row_class: int
    prefill: bool


class Mixer(Protocol):
    def __call__(self, x: torch.Tensor, run: Pass) -> torch.Tensor:
        """x, after its norm, [rows, columns, hidden] -> the same shape."""
        ...

    def fold(self, state: RecurrentState) -> None:
        """Commit the accepted columns of the last round."""
        ...


class FeedForward(Protocol):
    def __call__(self, x: torch.Tensor, run: Pass) -> torch.Tensor:
        """x, after its norm, [rows, columns, hidden] -> the same shape."""
        ...


class GatedAttention:
    """Attention with normalised queries and keys, whose output is gated by a projection of its input."""

    def __init__(self, config: QwenHybridConfig, weights: Weights, layer: int, cache_layer: int) -> None:
        ours = layer_prefix(layer)
        self._project_in = weights.matrices[f"{ours}query_gate_key_value"]
        self._project_out = weights.matrices[f"{ours}mixer_out"]
        self._query_norm = weights.tensors[f"{ours}query_norm"]
        self._key_norm = weights.tensors[f"{ours}key_norm"]
        self._cache_layer = cache_layer
        self._epsilon = config.norm_epsilon
        self._head_dim = config.head_dim
        self._scale = config.head_dim**-0.5
        kv_width = config.kv_heads * config.head_dim
        self._split = [2 * config.query_heads * config.head_dim, kv_width, kv_width]

    def __call__(self, x: torch.Tensor, run: Pass) -> torch.Tensor:
        projected = linear(x, self._project_in, run.row_class)
        gated = run.batch.cache.attend_projected(self._cache_layer, projected, self._norms, run.rotation, self._scale)
        return linear(gated, self._project_out, run.row_class)

    def fold(self, state: RecurrentState) -> None:
        """Nothing: a token leaves the cache by leaving its length."""


class DeltaNet:
    """Gated DeltaNet: convolution, delta rule, gated norm."""

    def __init__(self, config: QwenHybridConfig, weights: Weights, layer: int, state_layer: int) -> None:
        ours = layer_prefix(layer)
        joined = weights.matrices.get(f"{ours}qkv_z_b_a")
        # The gates stand apart where the artifact has them in another form than the rest.
        apart = (f"{ours}qkv_z", f"{ours}b_a")
        self._project_in = [weights.matrices[name] for name in apart] if joined is None else [joined]
        self._project_out = weights.matrices[f"{ours}mixer_out"]
        self._conv = weights.tensors[f"{ours}conv"]
        self._a_log = weights.tensors[f"{ours}a_log"]
        self._dt_bias = weights.tensors[f"{ours}dt_bias"]
        self._gate_norm = weights.tensors[f"{ours}gate_norm"]
        self._layer = state_layer
        self._epsilon = config.norm_epsilon
        self._output_gate = config.output_gate
        self._key_dim, self._value_dim = config.key_dim, config.value_dim
        key_width, value_width = config.key_heads * config.key_dim, config.value_heads * config.value_dim
        self._split = [config.conv_channels, value_width, config.value_heads, config.value_heads]
        self._split_conv = [key_width, key_width, value_width]

    def __call__(self, x: torch.Tensor, run: Pass) -> torch.Tensor:
        projected = torch.cat([linear(x, matrix, run.row_class) for matrix in self._project_in], dim=-1)
        qkv, gate, b, a = torch.split(projected, self._split, dim=-1)
        mix = self._prefill if run.prefill else self._decode
        read = mix(qkv, a, b, run.batch.state)
        normed = gated_rms_norm(read, _heads(gate, self._value_dim), self._gate_norm, self._epsilon, self._output_gate)
        return linear(normed.flatten(2), self._project_out, run.row_class)

    def fold(self, state: RecurrentState) -> None:
        """Commit the accepted columns of the last round."""
        one = slice(self._layer, self._layer + 1)
        records = DeltaRecords(state.records[KEY][one], state.records[UPDATE][one], state.records[DECAY][one])
        gated_delta.fold(state.arrays[RECURRENT][one], records, state.slots, state.lengths, state.accepted)

    def _prefill(self, qkv: torch.Tensor, a: torch.Tensor, b: torch.Tensor, state: RecurrentState) -> torch.Tensor:
        ring = state.records[COLUMN][self._layer]
        mixed = causal_conv.prefill(qkv, self._conv, ring, state.slots, state.lengths)
        return gated_delta.prefill(self._columns(mixed, a, b), state.arrays[RECURRENT][self._layer], state.slots)

    def _decode(self, qkv: torch.Tensor, a: torch.Tensor, b: torch.Tensor, state: RecurrentState) -> torch.Tensor:
        layer, records = self._layer, state.records
        mixed = causal_conv.decode(qkv, self._conv, records[COLUMN][layer], state.slots, state.lengths)
        left = DeltaRecords(records[KEY][layer], records[UPDATE][layer], records[DECAY][layer])
        memory = state.arrays[RECURRENT][layer]
        columns = self._columns(mixed, a, b)
        return gated_delta.decode(columns, memory, left, state.slots, state.lengths, state.accepted)

    def _columns(self, mixed: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> DeltaColumns:
        query, key, value = torch.split(mixed, self._split_conv, dim=-1)
        return DeltaColumns(
            query=_heads(query, self._key_dim),
            key=_heads(key, self._key_dim),
            value=_heads(value, self._value_dim),
            a=a,
            b=b,
            a_log=self._a_log,
            dt_bias=self._dt_bias,
        )


class DenseFeedForward:
    """down( silu(gate(x)) · up(x) )."""

    def __init__(self, weights: Weights, prefix: str) -> None:
        self._gate_up = weights.matrices[f"{prefix}gate_up"]
        self._down = weights.matrices[f"{prefix}down"]

    def __call__(self, x: torch.Tensor, run: Pass) -> torch.Tensor:
        return linear(swiglu(linear(x, self._gate_up, run.row_class)), self._down, run.row_class)


def _heads(x: torch.Tensor, width: int) -> torch.Tensor:
    """[rows, columns, heads · width] -> [rows, columns, heads, width]."""
    return x.view(*x.shape[:-1], -1, width)
