"""Bytes of temporaries of a unit of work by the reference operations.

For every place in a layer the tensors that live there at once are named and summed: what the operations say of
themselves (`ninfer_core.ops.workspace`), and what the layer holds beside them. The residual stream and the inputs of
the layer are alive at all places. No torch.
"""

from __future__ import annotations

from dataclasses import dataclass

from ninfer_core.ops.workspace import (
    FLOAT32,
    INT64,
    causal_conv,
    gated_delta,
    gated_rms_norm,
    linear,
    moe,
    paged_attention,
    partial_rope,
    rms_norm,
    swiglu,
)
from ninfer_models.qwen_hybrid.config import Experts, QwenHybridConfig


def mixer_bytes(config: QwenHybridConfig, rows: int, columns: int, activation: int, *, prefill: bool) -> int:
    """Of `ops.delta_mixer` between its projections."""
    width = config.value_heads * config.value_dim
    convolved = causal_conv.workspace_bytes(
        rows=rows, columns=columns, channels=config.conv_channels, width=config.conv_width, activation=activation
    )
    mixed = rows * columns * config.conv_channels * activation
    rule = (gated_delta.prefill_bytes if prefill else gated_delta.decode_bytes)(
        rows=rows,
        columns=columns,
        value_heads=config.value_heads,
        key_dim=config.key_dim,
        value_dim=config.value_dim,
    )
    read = rows * columns * width * FLOAT32
    normed = gated_rms_norm.workspace_bytes(elements=rows * columns * width, activation=activation)
    return max(convolved, mixed + max(rule, read + normed))


@dataclass(frozen=True, slots=True)
class ReferenceUnit:
    """Bytes of each place for one unit of work of `rows` × `columns` tokens. `row_class`, 0 for a prefill, is that
    of its matrix products; `head_class` that of the head. `coded` is whether matrices are in codes."""

    config: QwenHybridConfig
    activation: int
    coded: bool
    rows: int
    columns: int
    row_class: int
    head_class: int

    def peak(self) -> int:
        return self._stream() + max(
            self._norm(), self._attention(), self._delta_net(), self._feed_forward_part(), self._head()
        )

    def next_token_peak(self) -> int:
        """Of the next-token head: the embedded tokens, their norm and both inputs side by side stay, and the norm of
        the hidden states until they are joined. The logits of its drafts are fewer than those of a round."""
        vectors = self.tokens * self.config.hidden_size * self.activation
        joined = vectors + self._product(2 * self.config.hidden_size, self.config.hidden_size)
        layer = max(self._norm(), self._attention(), self._feed_forward_part())
        return self._stream() + 4 * vectors + max(joined, layer)

    def _norm(self) -> int:
        return rms_norm.workspace_bytes(elements=self.tokens * self.config.hidden_size)

    def _feed_forward_part(self) -> int:
        return self._dense() if self.config.experts is None else self._experts(self.config.experts)

    @property
    def prefill(self) -> bool:
        return self.row_class == 0

    @property
    def tokens(self) -> int:
        return self.rows * self.columns

    @property
    def matrix_rows(self) -> int:
        """Rows of every matrix product, padding included."""
        return max(self.tokens, self.row_class)

    def _stream(self) -> int:
        """Residual before and after an addition, the normed input of the layer, token ids and rotation tables."""
        residual = 3 * self.tokens * self.config.hidden_size * self.activation
        rotation = partial_rope.angle_bytes(tokens=self.tokens, pairs=self.config.rope.pairs)
        return residual + rotation + 4 * self.tokens * INT64

    def _product(self, inputs: int, outputs: int) -> int:
        return linear.reference_bytes(
            rows=self.tokens,
            inputs=inputs,
            outputs=outputs,
            row_class=self.row_class,
            activation=self.activation,
            coded=self.coded,
        )

    def _attention(self) -> int:
        config = self.config
        width, kv_width = config.query_heads * config.head_dim, config.kv_heads * config.head_dim
        projected = self._product(config.hidden_size, 2 * width + 2 * kv_width)
        rotated = partial_rope.workspace_bytes(elements=self.tokens * (width + kv_width), activation=self.activation)
        attended = (paged_attention.prefill_bytes if self.prefill else paged_attention.decode_bytes)(
            rows=self.rows,
            columns=self.columns,
            query_heads=config.query_heads,
            kv_heads=config.kv_heads,
            head_dim=config.head_dim,
            activation=self.activation,
        )
        return projected + rotated + attended

    def _delta_net(self) -> int:
        config = self.config
        width = config.value_heads * config.value_dim
        projected = self._product(config.hidden_size, config.conv_channels + width + 2 * config.value_heads)
        return projected + mixer_bytes(config, self.rows, self.columns, self.activation, prefill=self.prefill)

    def _dense(self) -> int:
        assert self.config.intermediate_size is not None
        return self._feed_forward(self.config.intermediate_size)

    def _feed_forward(self, width: int) -> int:
        """gate ‖ up, the activation of it, and its projection."""
        hidden = self.config.hidden_size
        inner = swiglu.workspace_bytes(elements=self.matrix_rows * width, activation=self.activation)
        return self._product(hidden, 2 * width) + inner + self._product(width, hidden)

    def _experts(self, experts: Experts) -> int:
        hidden, activation = self.config.hidden_size, self.activation
        routing = moe.routing_bytes(rows=self.matrix_rows, experts=experts.count, activation=activation)
        result = 2 * self.tokens * hidden * FLOAT32
        shared = self._feed_forward(experts.shared_intermediate_size)
        sizes = {"tokens": self.tokens, "hidden": hidden, "width": experts.intermediate_size, "activation": activation}
        if self.prefill:
            routed = moe.prefill_bytes(per_token=experts.per_token, coded=self.coded, **sizes)
        else:
            routed = moe.decode_bytes(coded=self.coded, **sizes)
        return routing + result + max(routed, shared)

    def _head(self) -> int:
        """Logits as the product gives them and in float32: of every column of a round, of the last one of a prefill."""
        config = self.config
        rows = self.rows if self.prefill else self.tokens
        product = linear.reference_bytes(
            rows=rows,
            inputs=config.hidden_size,
            outputs=config.vocabulary_rows,
            row_class=self.head_class,
            activation=self.activation,
            coded=self.coded,
        )
        return product + rows * config.vocabulary_rows * FLOAT32
