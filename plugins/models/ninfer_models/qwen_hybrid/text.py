"""The text model: embedding, layers, final norm, head. Implements `ninfer_core.api.Model`."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ninfer_core.api import ArtifactHeader, ForwardBatch, RecurrentState, Rotation, WeightSource
from ninfer_core.ops.linear import DECODE_ROWS, DenseMatrix, linear
from ninfer_core.ops.partial_rope import rope_angles
from ninfer_core.ops.rms_norm import rms_norm
from ninfer_models.qwen_hybrid.config import QwenHybridConfig, parse_config
from ninfer_models.qwen_hybrid.layers import DeltaNet, DenseFeedForward, FeedForward, GatedAttention, Mixer, Pass
from ninfer_models.qwen_hybrid.moe import ExpertFeedForward
from ninfer_models.qwen_hybrid.resident import (
    EMBEDDING,
    FINAL_NORM,
    HEAD,
    INVERSE_FREQUENCY,
    ROPE_AXIS,
    layer_prefix,
)
from ninfer_models.qwen_hybrid.rotation import attention_factor
from ninfer_models.qwen_hybrid.weights import Weights, load_weights


@dataclass(frozen=True, slots=True)
class Layer:
    """x + mixer(norm(x)), then the same with the feed-forward part."""

    input_norm: torch.Tensor
    mixer: Mixer
    feed_forward_norm: torch.Tensor
    feed_forward: FeedForward


class TextModel:
    """Weights on one device. `decode_columns` is the W of its rounds: it fixes the padding class of the head."""

    def __init__(self, config: QwenHybridConfig, weights: Weights, decode_columns: int) -> None:
        self._embedding = weights.tensors[EMBEDDING]
        self._head = DenseMatrix(self._embedding) if config.tied_head else weights.matrices[HEAD]
        self._final_norm = weights.tensors[FINAL_NORM]
        self._inverse_frequency = weights.tensors[INVERSE_FREQUENCY]
        self._axis = weights.tensors[ROPE_AXIS]
        self._attention_factor = attention_factor(config.rope)
        self._epsilon = config.norm_epsilon
        self._head_row_class = DECODE_ROWS * decode_columns
        self._layers = _make_layers(config, weights)

    def prefill(self, batch: ForwardBatch) -> torch.Tensor:
        """Commit all columns; -> hidden [rows, columns, hidden_size] after the final norm."""
        return self._run(batch, row_class=0, prefill=True)

    def decode(self, batch: ForwardBatch) -> torch.Tensor:
        """Fold the last round, then run columns without committing; -> hidden [rows, columns, hidden_size]."""
        return self._run(batch, row_class=DECODE_ROWS * batch.token_ids.shape[1], prefill=False)

    def fold(self, state: RecurrentState) -> None:
        """Commit the accepted columns of the last round, and run nothing."""
        for layer in self._layers:
            layer.mixer.fold(state)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """hidden [n, hidden_size] -> float32 [n, vocabulary_rows]."""
        return linear(hidden, self._head, self._head_row_class).float()

    def _run(self, batch: ForwardBatch, *, row_class: int, prefill: bool) -> torch.Tensor:
        angles = rope_angles(batch.positions, self._inverse_frequency, self._axis, self._attention_factor)
        run = Pass(batch, Rotation(*angles), row_class, prefill)
        x = self._embedding[batch.token_ids]
        for layer in self._layers:
            x = x + layer.mixer(rms_norm(x, layer.input_norm, self._epsilon), run)
            x = x + layer.feed_forward(rms_norm(x, layer.feed_forward_norm, self._epsilon), run)
        return rms_norm(x, self._final_norm, self._epsilon)


def build_text_model(
    header: ArtifactHeader, activation_dtype: str, decode_columns: int, weights: WeightSource, device: torch.device
) -> TextModel:
    """Load the text weights and put the model together."""
    config = parse_config(header)
    return TextModel(config, load_weights(header, config, weights, activation_dtype, device), decode_columns)


def _make_layers(config: QwenHybridConfig, weights: Weights) -> tuple[Layer, ...]:
    layers: list[Layer] = []
    attention_layers = recurrent_layers = 0
    for index, kind in enumerate(config.layer_kinds):
        mixer: Mixer
        if kind == "full_attention":
            mixer = GatedAttention(config, weights, index, attention_layers)
            attention_layers += 1
        else:
            mixer = DeltaNet(config, weights, index, recurrent_layers)
            recurrent_layers += 1
        ours = layer_prefix(index)
        feed_forward: FeedForward
        if config.experts is not None:
            feed_forward = ExpertFeedForward(config.experts, weights, index)
        else:
            feed_forward = DenseFeedForward(weights, ours)
        norms = [weights.tensors[f"{ours}{name}_norm"] for name in ("input", "feed_forward")]
        layers.append(Layer(norms[0], mixer, norms[1], feed_forward))
    return tuple(layers)
