"""Bytes of temporaries of the largest unit of work: a prefill chunk or a decode round, whichever needs more.

For every place in a layer the tensors that live there at once are named and summed; the residual stream and the
inputs of the layer are alive at all of them. What is counted are the reference operations: a kernel that fuses them
needs less. Every tensor counts as long as its name is held, which is what eager torch does. No torch.
"""

from __future__ import annotations

from dataclasses import dataclass

from ninfer_core.api import DTYPE_BYTES, ArtifactHeader, WorkspaceShape
from ninfer_models.qwen_hybrid.config import Experts, QwenHybridConfig, parse_config

_FLOAT32, _INT64, _BOOL = 4, 8, 1
_DELTA_CHUNK = 64
"""Columns the chunked delta rule works on at once (`ops.gated_delta`)."""
_PREFILL_SPLIT, _DECODE_SPLIT = 512, 256
"""Context tokens that attention works on at once (`ops.paged_attention`)."""
_ROW_CLASS = 8
"""Matrix rows that a decode column is padded to (`ops.linear`)."""


def workspace_bytes(header: ArtifactHeader, shape: WorkspaceShape) -> int:
    """Upper bound of the temporaries alive at once, sampling included. Raises ArtifactInvalid."""
    config = parse_config(header)
    activation = DTYPE_BYTES[shape.activation_dtype]
    prefill = _Unit(config, activation, rows=1, columns=shape.prefill_tokens, prefill=True)
    decode = _Unit(config, activation, rows=shape.decode_rows, columns=shape.decode_columns, prefill=False)
    return max(prefill.peak(), decode.peak())


@dataclass(frozen=True, slots=True)
class _Unit:
    """Bytes of each place for one unit of work of `rows` × `columns` tokens."""

    config: QwenHybridConfig
    activation: int
    rows: int
    columns: int
    prefill: bool

    def peak(self) -> int:
        feed_forward = self._dense() if self.config.experts is None else self._experts(self.config.experts)
        places = (self._norm(), self._attention(), self._delta_net(), feed_forward, self._head())
        return self._stream() + max(places)

    @property
    def tokens(self) -> int:
        return self.rows * self.columns

    @property
    def matrix_rows(self) -> int:
        """Rows of every matrix product, padding included."""
        return self.tokens if self.prefill else max(self.tokens, _ROW_CLASS * self.columns)

    def _stream(self) -> int:
        """Residual before and after an addition, the normed input of the layer, token ids and rotation tables."""
        residual = 3 * self.tokens * self.config.hidden_size * self.activation
        rotation = self.tokens * self.config.rope.pairs * (2 * _FLOAT32 + _INT64)
        return residual + rotation + 4 * self.tokens * _INT64

    def _norm(self) -> int:
        """Input, its square, scaled and weighted in float32."""
        return 4 * self.tokens * self.config.hidden_size * _FLOAT32

    def _product(self, inputs: int, outputs: int) -> int:
        """A matrix product: the padded input of a decode round, the output, and the library's own scratch."""
        padded = 0 if self.prefill else self.matrix_rows * inputs
        return (padded + self.matrix_rows * outputs) * self.activation

    def _attention(self) -> int:
        config, split = self.config, _PREFILL_SPLIT if self.prefill else _DECODE_SPLIT
        width, kv_width = config.query_heads * config.head_dim, config.kv_heads * config.head_dim
        projected = self._product(config.hidden_size, 2 * width + 2 * kv_width)
        rotated = self.tokens * (width + kv_width) * (2 * self.activation + 4 * _FLOAT32)
        queries = 2 * self.tokens * width * _FLOAT32
        sums = 3 * self.tokens * width * _FLOAT32
        pages = self.rows * split * kv_width * (4 * _FLOAT32 + 2 * self.activation)
        scores = self.tokens * config.query_heads * split * (3 * _FLOAT32 + 2 * _BOOL)
        return projected + rotated + queries + sums + pages + scores

    def _delta_net(self) -> int:
        config = self.config
        width = config.value_heads * config.value_dim
        projected = self._product(config.hidden_size, config.conv_channels + width + 2 * config.value_heads)
        window = (self.tokens + self.rows * config.conv_width) * config.conv_channels
        convolved = window * (2 * self.activation + 4 * _FLOAT32)
        after = self.tokens * config.conv_channels * self.activation
        rule = self._delta_chunks() if self.prefill else self._delta_columns()
        normed = self.tokens * width * (4 * _FLOAT32 + self.activation)
        return projected + max(convolved, after + max(rule, self.tokens * width * _FLOAT32 + normed))

    def _delta_chunks(self) -> int:
        """The chunked form: per-head columns in float32, squares of every chunk, and the memory."""
        config = self.config
        columns = self.rows * -(-self.columns // _DELTA_CHUNK) * _DELTA_CHUNK * config.value_heads
        key = 8 * columns * config.key_dim  # query, key, both grown, both weighted by beta, and their sources
        value = 4 * columns * config.value_dim  # value, weighted value, output, output as returned
        solved = 2 * columns * (config.key_dim + config.value_dim)  # right side and solution
        squares = 5 * columns * _DELTA_CHUNK  # exponents, ratio, products, mixing, read
        memory = 3 * self.rows * config.value_heads * config.key_dim * config.value_dim
        return (key + value + solved + squares + memory) * _FLOAT32

    def _delta_columns(self) -> int:
        """The recurrent form: memory as read, decayed, outer product, sum and choice; a little per column."""
        config = self.config
        memory = 5 * self.rows * config.value_heads * config.key_dim * config.value_dim
        columns = 6 * self.tokens * config.value_heads * (config.key_dim + config.value_dim)
        return (memory + columns) * _FLOAT32

    def _dense(self) -> int:
        assert self.config.intermediate_size is not None
        return self._swiglu(self.config.intermediate_size, self.matrix_rows)

    def _swiglu(self, width: int, rows: int) -> int:
        """gate ‖ up, both in float32 with the gate opened and the product, the result, and its projection."""
        inner = rows * width * (3 * self.activation + 4 * _FLOAT32)
        return inner + self._product(self.config.hidden_size, self.config.hidden_size)

    def _experts(self, experts: Experts) -> int:
        hidden, width = self.config.hidden_size, experts.intermediate_size
        routing = self.matrix_rows * experts.count * (self.activation + 3 * _FLOAT32 + _INT64)
        result = 2 * self.tokens * hidden * _FLOAT32
        shared = self._swiglu(experts.shared_intermediate_size, self.matrix_rows)
        if self.prefill:
            pairs = self.tokens * experts.per_token
            grouped = pairs * (3 * hidden * self.activation + 2 * hidden * _FLOAT32 + 4 * _INT64)
            inner = pairs * width * (3 * self.activation + 4 * _FLOAT32)
        else:
            grouped = self.tokens * 3 * width * hidden * self.activation
            inner = self.tokens * (width * (3 * self.activation + 4 * _FLOAT32) + 3 * hidden * _FLOAT32)
        return routing + result + max(grouped + inner, shared)

    def _head(self) -> int:
        """Logits of a round as the product gives them and in float32, then what sampling makes of them."""
        rows = self.rows if self.prefill else self.matrix_rows
        logits = max(rows, _ROW_CLASS) * self.config.vocabulary_rows * (self.activation + _FLOAT32)
        sampling = self.rows * self.config.vocabulary_rows * (5 * _FLOAT32 + 5 * _INT64)
        return logits + sampling
