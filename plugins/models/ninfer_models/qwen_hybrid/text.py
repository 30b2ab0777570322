"""The text model: embedding, layers, final norm, head. Implements `ninfer_core.api.DraftableModel`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch.nn import functional

from ninfer_core.api import (
    FINAL_HIDDEN,
    ArtifactHeader,
    ForwardBatch,
    Kernels,
    NextTokenHead,
    RecurrentState,
    Rotation,
    WeightSource,
)
from ninfer_core.ops.linear import DECODE_ROWS, DenseMatrix
from ninfer_models.qwen_hybrid.config import QwenHybridConfig, parse_config
from ninfer_models.qwen_hybrid.layers import (
    DeltaNet,
    GatedAttention,
    Part,
    Pass,
    Routes,
    make_feed_forward,
    mixer_state,
    select_routes,
)
from ninfer_models.qwen_hybrid.mtp import MultiTokenHead
from ninfer_models.qwen_hybrid.resident import (
    DRAFT_HEAD,
    DRAFT_TOKEN_IDS,
    EMBEDDING,
    FINAL_NORM,
    HEAD,
    INVERSE_FREQUENCY,
    MTP_JOINT,
    ROPE_AXIS,
    TEXT_ONLY,
    layer_prefix,
)
from ninfer_models.qwen_hybrid.rotation import attention_factor
from ninfer_models.qwen_hybrid.weights import Weights, load_weights


class TextModel:
    """Weights on one device. `decode_columns` is the W of its rounds: it fixes the padding class of the head."""

    def __init__(
        self,
        config: QwenHybridConfig,
        weights: Weights,
        decode_columns: int,
        device: torch.device,
        kernels: Kernels,
        taps: Sequence[int] = (),
    ) -> None:
        self._embedding = weights.tensors[EMBEDDING]
        self._head = DenseMatrix(self._embedding) if config.tied_head else weights.matrices[HEAD]
        self._final_norm = weights.tensors[FINAL_NORM]
        self._inverse_frequency = weights.tensors[INVERSE_FREQUENCY]
        self._axis = weights.tensors[ROPE_AXIS]
        self._attention_factor = attention_factor(config.rope)
        self._epsilon = config.norm_epsilon
        self._head_row_class = DECODE_ROWS * decode_columns
        self._routes = select_routes(device, kernels)
        self._parts = _make_parts(config, weights, self._routes)
        self._taps = {tap: [place for place, other in enumerate(taps) if other == tap] for tap in taps}
        self._draft_head = weights.matrices.get(DRAFT_HEAD, self._head)
        self._draft_token_ids = weights.tensors.get(DRAFT_TOKEN_IDS)
        self._next_token_head = (
            MultiTokenHead(config, weights, decode_columns, self._routes) if MTP_JOINT in weights.matrices else None
        )

    @property
    def next_token_head(self) -> NextTokenHead | None:
        return self._next_token_head

    @property
    def draft_token_ids(self) -> torch.Tensor | None:
        return self._draft_token_ids

    def prefill(self, batch: ForwardBatch) -> torch.Tensor:
        """Commit all columns; -> hidden [rows, columns, hidden_size] after the final norm."""
        return self._run(batch, row_class=0, prefill=True)

    def prefill_observed(self, batch: ForwardBatch, on_layer: Callable[[int, torch.Tensor], None]) -> torch.Tensor:
        """`prefill`, telling the residual stream after every layer."""
        return self._run(batch, row_class=0, prefill=True, on_layer=on_layer)

    def decode(self, batch: ForwardBatch) -> torch.Tensor:
        """Fold the last round, then run columns without committing; -> hidden [rows, columns, hidden_size]."""
        return self._run(batch, row_class=DECODE_ROWS * batch.token_ids.shape[1], prefill=False)

    def fold(self, state: RecurrentState) -> None:
        """Commit the accepted columns of the last round, and run nothing."""
        self._routes.mixer.fold(mixer_state(state), state.slots, state.lengths, state.accepted)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """hidden [n, hidden_size] -> [n, vocabulary_rows] in its dtype."""
        return self._routes.linear(hidden, self._head, self._head_row_class)

    def embed(self, token_ids: torch.Tensor) -> torch.Tensor:
        """token_ids int64 of any shape -> [*shape, hidden_size]."""
        return functional.embedding(token_ids, self._embedding)

    def draft_logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """hidden [rows, columns, hidden_size] -> [rows, columns, proposed] in its dtype."""
        return self._routes.linear(hidden, self._draft_head, DECODE_ROWS * hidden.shape[1])

    def _run(
        self,
        batch: ForwardBatch,
        *,
        row_class: int,
        prefill: bool,
        on_layer: Callable[[int, torch.Tensor], None] | None = None,
    ) -> torch.Tensor:
        angles = self._routes.rope_angles(batch.positions, self._inverse_frequency, self._axis, self._attention_factor)
        run = Pass(batch.cache, batch.state, Rotation(*angles), row_class, prefill)
        x = functional.embedding(batch.token_ids, self._embedding)
        for index, part in enumerate(self._parts):
            x = part(x, run)
            if index % 2 == 0:  # a mixer and a feed-forward part make a layer
                continue
            self._keep(batch, index // 2, x)
            if on_layer is not None:
                on_layer(index // 2, x)
        hidden = self._routes.rms_norm(x, self._final_norm, self._epsilon)
        self._keep(batch, FINAL_HIDDEN, hidden)
        return hidden

    def _keep(self, batch: ForwardBatch, tap: int, x: torch.Tensor) -> None:
        """x [rows, columns, hidden_size], where a drafter has tapped."""
        if batch.features is not None:
            for place in self._taps.get(tap, ()):
                batch.features[:, :, place].copy_(x)


def build_text_model(
    header: ArtifactHeader,
    activation_dtype: str,
    decode_columns: int,
    weights: WeightSource,
    device: torch.device,
    kernels: Kernels = "auto",
    groups: Sequence[str] = TEXT_ONLY,
    taps: Sequence[int] = (),
) -> TextModel:
    """Load the text weights, and what `groups` add to them, and put the model together."""
    config = parse_config(header)
    loaded = load_weights(header, config, weights, activation_dtype, device, groups)
    return TextModel(config, loaded, decode_columns, device, kernels, taps)


def _make_parts(config: QwenHybridConfig, weights: Weights, routes: Routes) -> tuple[Part, ...]:
    """Mixer and feed-forward part of every layer, in the order in which they are run."""
    parts: list[Part] = []
    attention_layers = recurrent_layers = 0
    for index, kind in enumerate(config.layer_kinds):
        ours = layer_prefix(index)
        if kind == "full_attention":
            parts.append(GatedAttention(config, weights, ours, attention_layers, routes))
            attention_layers += 1
        else:
            parts.append(DeltaNet(config, weights, ours, recurrent_layers, routes))
            recurrent_layers += 1
        parts.append(make_feed_forward(config, weights, ours, routes))
    return tuple(parts)
