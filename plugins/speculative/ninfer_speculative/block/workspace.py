"""Bytes of temporaries of a block drafter: of a chunk of a prompt that it takes in or of a round, whichever is more.

For every place the tensors that live there at once are named and summed, by the routes that will run: what operations
say of themselves (`ninfer_core.ops.workspace`), and what a drafter holds beside them. No torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ninfer_core.api import DTYPE_BYTES, BuildShape, Geometry
from ninfer_core.ops.workspace import (
    FLOAT32,
    INT64,
    block_attention,
    block_conv,
    draft_walk,
    likeliest,
    linear,
    partial_rope,
    rms_norm,
    swiglu,
)
from ninfer_core.ops.workspace.linear_tiles import FORMS
from ninfer_speculative.block.config import DraftConfig
from ninfer_speculative.block.rings import list_rings


def workspace_bytes(config: DraftConfig, geometry: Geometry, shape: BuildShape, *, coded: bool) -> int:
    """Upper bound of the temporaries that are alive at once. `coded` is whether the head of the target may be stored in
    codes."""
    chunk = _Unit(config, shape, rows=1, columns=shape.prefill_tokens, row_class=0)
    row_class = linear.DECODE_ROWS * shape.decode_columns
    decode = _Unit(config, shape, rows=shape.decode_rows, columns=shape.decode_columns, row_class=row_class)
    return max(
        chunk.context_peak(),
        decode.context_peak(),
        decode.block_peak(),
        decode.proposal_peak(geometry.vocabulary_rows, coded=coded),
    )


@dataclass(frozen=True, slots=True)
class _Unit:
    """Bytes of each place for `rows` × `columns` tokens. `row_class`, 0 for a chunk of a prompt, is that of the matrix
    products."""

    config: DraftConfig
    shape: BuildShape
    rows: int
    columns: int
    row_class: int

    def context_peak(self) -> int:
        """The joined features and their norm stay while keys and values of one layer after the other are stored."""
        config = self.config
        vectors = self._vectors(self.tokens)
        joined = self._linear(self.tokens, len(config.taps) * config.hidden_size, config.hidden_size, self.row_class)
        stored = self._linear(self.tokens, config.hidden_size, 2 * config.kv_width, self.row_class)
        if not self._kernels:
            most = max(ring.tokens for ring in list_rings(config, self.shape.max_context))
            stored += block_attention.store_bytes(
                rows=self.rows, columns=min(self.columns, most), kv_heads=config.kv_heads, head_dim=config.head_dim
            )
        held = self._padded(self.tokens, config.hidden_size, self.row_class)
        return max(joined, held + self._norm(self.tokens), held + vectors + self._angles() + stored)

    def block_peak(self) -> int:
        """The tokens, their rotation, and the largest place of a layer: both sublayers find the residual stream before
        the layer, the second one also that after the first."""
        vectors = self._vectors(self.tokens)
        around = self._around()
        held = self._angles() + self.tokens * INT64 + vectors
        return held + around + max(self._attention(), vectors + self._feed_forward())

    def proposal_peak(self, vocabulary_rows: int, *, coded: bool) -> int:
        """The last residual stream and the hidden states of the mask tokens stay while they become logits, and those
        while drafts are chosen from them."""
        config, drafts = self.config, self.rows * (self.columns - 1)
        head_class = linear.DECODE_ROWS * (self.columns - 1)
        held = self._angles() + self.tokens * INT64 + self._vectors(self.tokens)
        hidden = self._vectors(drafts)
        head = self._linear(drafts, config.hidden_size, vocabulary_rows, head_class, coded=coded)
        logits = self._padded(drafts, vocabulary_rows, head_class)
        return held + max(self._norm(drafts), hidden + max(head, logits + self._choice(vocabulary_rows)))

    def _choice(self, vocabulary_rows: int) -> int:
        """From the logits: the likeliest of each position, or a walk over states of the selector."""
        config, drafts = self.config, self.columns - 1
        if config.additions is None:
            return likeliest.workspace_bytes(columns=self.rows * drafts, proposed=vocabulary_rows)
        rank = config.additions.rank
        states = self._linear(self.rows * drafts, config.hidden_size, rank, self.row_class)
        walk = draft_walk.workspace_bytes(
            rows=self.rows, drafts=drafts, proposed=vocabulary_rows, rank=rank, kernels=self._kernels
        )
        return states + walk + self.rows * drafts * INT64

    def _attention(self) -> int:
        """Queries, keys and values of the block stay until the projection of what was read is done."""
        config, tokens = self.config, self.tokens
        widths = config.query_width + 2 * config.kv_width
        projected = self._linear(tokens, config.hidden_size, widths, self.row_class, normed=self._plain)
        kept = self._padded(tokens, widths, self.row_class)
        attended = block_attention.attend_bytes(
            rows=self.rows,
            columns=self.columns,
            query_heads=config.query_heads,
            kv_heads=config.kv_heads,
            head_dim=config.head_dim,
            ring_tokens=max(ring.tokens for ring in list_rings(config, self.shape.max_context)),
            activation=self._activation,
            kernels=self._kernels,
        )
        mixed = tokens * config.query_width * self._activation
        out = self._linear(tokens, config.query_width, config.hidden_size, self.row_class, residual=self._plain)
        return max(projected, kept + attended, kept + mixed + out)

    def _feed_forward(self) -> int:
        config, tokens, width = self.config, self.tokens, self.config.intermediate_size
        opened = self._linear(tokens, config.hidden_size, 2 * width, self.row_class, normed=self._plain, gated=True)
        inner = tokens * width * self._activation
        return max(
            opened, inner + self._linear(tokens, width, config.hidden_size, self.row_class, residual=self._plain)
        )

    def _around(self) -> int:
        """In DFlash2, around a sublayer: its normed input, the coefficients and the convolved input stay, and its
        result is convolved."""
        if self._plain:
            return 0
        config, tokens, additions = self.config, self.tokens, self.config.additions
        assert additions is not None
        coefficients = 2 * additions.taps * (config.hidden_size // additions.group)
        elements = tokens * config.hidden_size
        product = self._linear(tokens, config.hidden_size, coefficients, self.row_class)
        convolved = block_conv.workspace_bytes(elements=elements, activation=self._activation, kernels=self._kernels)
        held = self._vectors(tokens) + self._padded(tokens, coefficients, self.row_class)
        return max(self._norm(tokens), self._vectors(tokens) + product, held + convolved)

    @property
    def tokens(self) -> int:
        return self.rows * self.columns

    @property
    def _kernels(self) -> bool:
        return self.shape.kernels == "auto"

    @property
    def _plain(self) -> bool:
        """Whether norm and residual are of the sublayer's own products."""
        return self.config.additions is None

    @property
    def _activation(self) -> int:
        return DTYPE_BYTES[self.shape.activation_dtype]

    def _vectors(self, tokens: int) -> int:
        return tokens * self.config.hidden_size * self._activation

    def _angles(self) -> int:
        return partial_rope.angle_bytes(tokens=self.tokens, pairs=self.config.head_dim // 2)

    def _padded(self, tokens: int, outputs: int, row_class: int) -> int:
        """The result of a product, which the reference leaves padded."""
        return (tokens if self._kernels else max(tokens, row_class)) * outputs * self._activation

    def _norm(self, tokens: int) -> int:
        elements = tokens * self.config.hidden_size
        return self._vectors(tokens) if self._kernels else rms_norm.workspace_bytes(elements=elements)

    def _linear(
        self,
        tokens: int,
        inputs: int,
        outputs: int,
        row_class: int,
        *,
        coded: bool = False,
        normed: bool = False,
        gated: bool = False,
        residual: bool = False,
    ) -> int:
        """A product and its result. The kernels norm, gate and add on the way; the reference holds each. Of a matrix in
        codes the form is not known here: what the kernels take of every form counts as theirs."""
        sizes: dict[str, Any] = {"rows": tokens, "inputs": inputs, "outputs": outputs, "row_class": row_class}
        sizes["activation"] = self._activation
        if self._kernels:
            forms = FORMS if coded else FORMS[:1]
            around = {"normed": normed, "gated": gated, "residual": residual}
            return max(linear.kernel_bytes(form, **sizes, **around) for form in forms)
        product = linear.reference_bytes(**sizes, coded=coded)
        after = 0
        if gated:
            after = swiglu.workspace_bytes(elements=tokens * outputs // 2, activation=self._activation)
        if residual:
            after = tokens * outputs * (3 * FLOAT32 + self._activation)
        return max(self._norm(tokens), self._vectors(tokens) + product + after) if normed else product + after
