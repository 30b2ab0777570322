"""What a layer is made of, over the operations of the core: the two token mixers and the two feed-forward parts.

Each part takes the residual stream and gives it back with its own share added: norm and addition are done inside the
products, wherever the device has a kernel for that. Its weights are those whose names begin with `ours`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from ninfer_core.api import AttentionCache, HeadNorms, Kernels, RecurrentState, Rotation
from ninfer_core.ops import delta_mixer, moe, partial_rope
from ninfer_core.ops import linear as linear_op
from ninfer_core.ops import rms_norm as rms_norm_op
from ninfer_core.ops.delta_mixer import DeltaMixer, MixerColumns, MixerState, MixerWeights
from ninfer_core.ops.linear import Linear, Norm
from ninfer_core.ops.moe import ExpertWeights
from ninfer_core.ops.partial_rope import RopeAngles
from ninfer_core.ops.rms_norm import RmsNorm
from ninfer_models.qwen_hybrid.config import Experts, QwenHybridConfig
from ninfer_models.qwen_hybrid.geometry import COLUMN, DECAY, KEY, RECURRENT, UPDATE
from ninfer_models.qwen_hybrid.weights import Weights


@dataclass(frozen=True, slots=True)
class Routes:
    """The operations of one device, chosen once."""

    linear: Linear
    rms_norm: RmsNorm
    rope_angles: RopeAngles
    mixer: DeltaMixer
    experts: moe.FeedForward


def select_routes(device: torch.device, kernels: Kernels) -> Routes:
    return Routes(
        linear=linear_op.select(device, kernels),
        rms_norm=rms_norm_op.select(device, kernels),
        rope_angles=partial_rope.select(device, kernels),
        mixer=delta_mixer.select(device, kernels),
        experts=moe.select(device, kernels),
    )


@dataclass(frozen=True, slots=True)
class Pass:
    """One run through layers. `row_class` is that of `ops.linear`; a prefill commits its columns. `state` is None where
    no layer has any."""

    cache: AttentionCache
    state: RecurrentState | None
    rotation: Rotation
    row_class: int
    prefill: bool


class Part(Protocol):
    def __call__(self, x: torch.Tensor, run: Pass) -> torch.Tensor:
        """x [rows, columns, hidden] -> the same shape, the part's result added."""
        ...


class GatedAttention:
    """Attention with normalised queries and keys, whose output is gated by a projection of its input."""

    def __init__(self, config: QwenHybridConfig, weights: Weights, ours: str, cache_layer: int, routes: Routes) -> None:
        self._linear = routes.linear
        self._norm = Norm(weights.tensors[f"{ours}input_norm"], config.norm_epsilon)
        self._project_in = weights.matrices[f"{ours}query_gate_key_value"]
        self._project_out = weights.matrices[f"{ours}mixer_out"]
        self._norms = HeadNorms(
            weights.tensors[f"{ours}query_norm"], weights.tensors[f"{ours}key_norm"], config.norm_epsilon
        )
        self._cache_layer = cache_layer
        self._scale = config.head_dim**-0.5

    def __call__(self, x: torch.Tensor, run: Pass) -> torch.Tensor:
        projected = self._linear(x, self._project_in, run.row_class, norm=self._norm)
        gated = run.cache.attend_projected(self._cache_layer, projected, self._norms, run.rotation, self._scale)
        return self._linear(gated, self._project_out, run.row_class, residual=x)


class DeltaNet:
    """Gated DeltaNet: convolution, delta rule, gated norm."""

    def __init__(self, config: QwenHybridConfig, weights: Weights, ours: str, state_layer: int, routes: Routes) -> None:
        self._linear, self._mixer = routes.linear, routes.mixer
        self._norm = Norm(weights.tensors[f"{ours}input_norm"], config.norm_epsilon)
        # The gates stand apart where the artifact has them in another form than the rest.
        joined = f"{ours}qkv_z_b_a" in weights.matrices
        self._project_in = weights.matrices[f"{ours}qkv_z_b_a" if joined else f"{ours}qkv_z"]
        self._gates = None if joined else weights.matrices[f"{ours}b_a"]
        self._project_out = weights.matrices[f"{ours}mixer_out"]
        self._weights = MixerWeights(
            conv=weights.tensors[f"{ours}conv"],
            a_log=weights.tensors[f"{ours}a_log"],
            dt_bias=weights.tensors[f"{ours}dt_bias"],
            gate_norm=weights.tensors[f"{ours}gate_norm"],
            epsilon=config.norm_epsilon,
            activation=config.output_gate,
            key_heads=config.key_heads,
            key_dim=config.key_dim,
        )
        self._layer = state_layer
        self._mixed_width = config.conv_channels + config.value_heads * config.value_dim
        self._conv_channels, self._heads = config.conv_channels, config.value_heads

    def __call__(self, x: torch.Tensor, run: Pass) -> torch.Tensor:
        wide, gates = self._project(x, run.row_class)
        columns = MixerColumns(
            qkv=wide[..., : self._conv_channels],
            gate=wide[..., self._conv_channels : self._mixed_width],
            b=gates[..., : self._heads],
            a=gates[..., self._heads :],
        )
        state = run.state
        assert state is not None, "a recurrent layer without its state"
        which = (mixer_state(state), self._layer, state.slots, state.lengths)
        if run.prefill:
            mixed = self._mixer.prefill(columns, self._weights, *which)
        else:
            mixed = self._mixer.decode(columns, self._weights, *which, state.accepted)
        return self._linear(mixed, self._project_out, run.row_class, residual=x)

    def _project(self, x: torch.Tensor, row_class: int) -> tuple[torch.Tensor, torch.Tensor]:
        """-> query, key, value and output gate [rows, columns, mixed width]; b and a [rows, columns, 2 · heads]. Where
        one matrix gives both, they are views of one tensor."""
        if self._gates is not None:
            return self._linear.pair(x, self._project_in, self._gates, row_class, norm=self._norm)
        projected = self._linear(x, self._project_in, row_class, norm=self._norm)
        return projected[..., : self._mixed_width], projected[..., self._mixed_width :]


class DenseFeedForward:
    """down( silu(gate(x)) · up(x) )."""

    def __init__(self, config: QwenHybridConfig, weights: Weights, ours: str, routes: Routes) -> None:
        self._linear = routes.linear
        self._norm = Norm(weights.tensors[f"{ours}feed_forward_norm"], config.norm_epsilon)
        self._gate_up = weights.matrices[f"{ours}gate_up"]
        self._down = weights.matrices[f"{ours}down"]

    def __call__(self, x: torch.Tensor, run: Pass) -> torch.Tensor:
        inner = self._linear(x, self._gate_up, run.row_class, norm=self._norm, gated=True)
        return self._linear(inner, self._down, run.row_class, residual=x)


class ExpertFeedForward:
    """Σ weight · expert(x) + sigmoid(shared_gate(x)) · shared(x)."""

    def __init__(self, config: QwenHybridConfig, experts: Experts, weights: Weights, ours: str, routes: Routes) -> None:
        self._experts = routes.experts
        self._norm = Norm(weights.tensors[f"{ours}feed_forward_norm"], config.norm_epsilon)
        self._weights = ExpertWeights(
            router=dense_weight(weights, f"{ours}router"),
            gate_up=weights.matrices[f"{ours}experts_gate_up"],
            down=weights.matrices[f"{ours}experts_down"],
            shared_gate=dense_weight(weights, f"{ours}shared_gate"),
            shared_gate_up=weights.matrices[f"{ours}shared_gate_up"],
            shared_down=weights.matrices[f"{ours}shared_down"],
            per_token=experts.per_token,
        )

    def __call__(self, x: torch.Tensor, run: Pass) -> torch.Tensor:
        return self._experts(x, self._weights, run.row_class, norm=self._norm, residual=x)


def make_feed_forward(config: QwenHybridConfig, weights: Weights, ours: str, routes: Routes) -> Part:
    """Of the kind that all layers of this model have."""
    if config.experts is not None:
        return ExpertFeedForward(config, config.experts, weights, ours, routes)
    return DenseFeedForward(config, weights, ours, routes)


def mixer_state(state: RecurrentState) -> MixerState:
    """The program's pools as the mixer names them."""
    return MixerState(
        memory=state.arrays[RECURRENT],
        column=state.records[COLUMN],
        key=state.records[KEY],
        update=state.records[UPDATE],
        decay=state.records[DECAY],
    )


def dense_weight(weights: Weights, name: str) -> torch.Tensor:
    """A matrix that is kept in the activation dtype whatever the others are in."""
    matrix = weights.matrices[name]
    assert isinstance(matrix, linear_op.DenseMatrix), f"{name} is in codes"
    return matrix.weight
