"""The multi-token prediction head of a checkpoint (group `mtp`). Implements `ninfer_core.api.NextTokenHead`."""

from __future__ import annotations

import torch
from torch.nn import functional

from ninfer_core.api import AttentionCache, Rotation
from ninfer_core.ops.linear import DECODE_ROWS
from ninfer_models.qwen_hybrid.config import QwenHybridConfig
from ninfer_models.qwen_hybrid.layers import GatedAttention, Part, Pass, Routes, make_feed_forward
from ninfer_models.qwen_hybrid.resident import (
    EMBEDDING,
    INVERSE_FREQUENCY,
    MTP_EMBEDDING_NORM,
    MTP_HIDDEN_NORM,
    MTP_JOINT,
    MTP_LAYER,
    MTP_NORM,
    ROPE_AXIS,
)
from ninfer_models.qwen_hybrid.rotation import attention_factor
from ninfer_models.qwen_hybrid.weights import Weights


class MultiTokenHead:
    """norm( layer( joint( norm(embed(token)) ‖ norm(hidden) ) ) ), with a layer of the model's own kind of attention
    (docs/model.md, "Next-token head").

    Units of up to `decode_columns` columns are padded as rounds are, longer ones are parts of a prompt.
    """

    def __init__(self, config: QwenHybridConfig, weights: Weights, decode_columns: int, routes: Routes) -> None:
        self._routes = routes
        self._embedding = weights.tensors[EMBEDDING]
        self._joint = weights.matrices[MTP_JOINT]
        self._embedding_norm = weights.tensors[MTP_EMBEDDING_NORM]
        self._hidden_norm = weights.tensors[MTP_HIDDEN_NORM]
        self._norm = weights.tensors[MTP_NORM]
        self._parts: tuple[Part, ...] = (
            GatedAttention(config, weights, MTP_LAYER, 0, routes),
            make_feed_forward(config, weights, MTP_LAYER, routes),
        )
        self._inverse_frequency = weights.tensors[INVERSE_FREQUENCY]
        self._axis = weights.tensors[ROPE_AXIS]
        self._attention_factor = attention_factor(config.rope)
        self._epsilon = config.norm_epsilon
        self._decode_columns = decode_columns

    def __call__(
        self, token_ids: torch.Tensor, hidden: torch.Tensor, positions: torch.Tensor, cache: AttentionCache
    ) -> torch.Tensor:
        """See `ninfer_core.api.NextTokenHead`."""
        columns = token_ids.shape[1]
        prefill = columns > self._decode_columns
        row_class = 0 if prefill else DECODE_ROWS * columns
        norm = self._routes.rms_norm
        angles = self._routes.rope_angles(positions, self._inverse_frequency, self._axis, self._attention_factor)
        run = Pass(cache, None, Rotation(*angles), row_class, prefill)
        embedded = norm(functional.embedding(token_ids, self._embedding), self._embedding_norm, self._epsilon)
        both = torch.cat((embedded, norm(hidden, self._hidden_norm, self._epsilon)), dim=-1)
        x = self._routes.linear(both, self._joint, row_class)
        for part in self._parts:
            x = part(x, run)
        return norm(x, self._norm, self._epsilon)
