"""What a block drafter needs of a plan: its weights, its taps, a ring of context for every sequence, temporaries."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ninfer_core.api import (
    DRAFT_CONFIG,
    DRAFT_GROUP,
    DTYPE_BYTES,
    MOST_DRAFT_TOKENS,
    ArtifactHeader,
    BuildShape,
    DrafterNeeds,
    DraftTokens,
    Geometry,
    PluginIncompatible,
    StateArray,
)
from ninfer_core.ops.workspace import FLOAT32, INT64, linear, partial_rope, rms_norm, sample, swiglu
from ninfer_core.ops.workspace.draft_walk import CHOICES
from ninfer_speculative.block.config import DraftConfig
from ninfer_speculative.block.resident import list_pieces

KEYS, VALUES = "draft_keys_", "draft_values_"
"""Beginnings of the names of the state arrays."""


class LayerRing(msgspec.Struct, frozen=True, kw_only=True):
    """Where a layer keeps its context: in layer `place` of the arrays `draft_keys_NAME` and `draft_values_NAME`."""

    name: str
    place: int
    tokens: int


def draft_tokens(config: DraftConfig) -> DraftTokens:
    """A block may be wider or narrower than the one it was trained with; by default it is that one."""
    return DraftTokens(most=MOST_DRAFT_TOKENS, default=config.block_size - 1)


def drafter_needs(config: DraftConfig, geometry: Geometry, shape: BuildShape) -> DrafterNeeds:
    """What the plan pays for."""
    pieces = list_pieces(config, shape.activation_dtype)
    return DrafterNeeds(
        groups=(DRAFT_GROUP,),
        resident=tuple(piece.spec for piece in pieces),
        taps=config.taps,
        state=tuple(_state(config, shape)),
        law_width=0 if config.additions is None else CHOICES,
        workspace_bytes=workspace_bytes(config, geometry, shape),
    )


def list_rings(config: DraftConfig, max_context: int) -> tuple[LayerRing, ...]:
    """Of each layer. A ring holds what any column of a block may see: as much as its window, and everything where there
    is none."""
    rings: list[LayerRing] = []
    for layer in config.layers:
        name, tokens = ("all", max_context) if layer.window is None else ("window", min(layer.window, max_context))
        place = sum(ring.name == name for ring in rings)
        rings.append(LayerRing(name=name, place=place, tokens=tokens))
    return tuple(rings)


def _state(config: DraftConfig, shape: BuildShape) -> Iterator[StateArray]:
    rings = list_rings(config, shape.max_context)
    for name, tokens in dict.fromkeys((ring.name, ring.tokens) for ring in rings):
        layers = sum(ring.name == name for ring in rings)
        for part in (KEYS, VALUES):
            yield StateArray(
                name=part + name,
                layers=layers,
                shape=(config.kv_heads, tokens, config.head_dim),
                dtype=shape.activation_dtype,
            )


def check_target(header: ArtifactHeader, config: DraftConfig, geometry: Geometry) -> None:
    """Embedding and head are the target's, and taps are layers of it. Raises PluginIncompatible for another model's."""
    wrong = [
        f"{name} is {asked}, and the model has {there}"
        for name, asked, there in (
            ("hidden_size", config.hidden_size, geometry.hidden_size),
            ("vocab_size", config.vocabulary_rows, geometry.vocabulary_rows),
            ("num_target_layers", config.target_layers or geometry.layers, geometry.layers),
        )
        if asked != there
    ]
    if max(config.taps) >= geometry.layers:
        wrong.append(f"target_layer_ids go to {max(config.taps)}, and the model has layers 0 to {geometry.layers - 1}")
    if config.mask_token_id >= geometry.vocabulary_rows:
        rows = geometry.vocabulary_rows
        wrong.append(f"mask_token_id is {config.mask_token_id}, and the embedding has rows 0 to {rows - 1}")
    if wrong:
        raise PluginIncompatible(
            f"the drafter in {header.source} was made for another model ({DRAFT_CONFIG}): {'; '.join(wrong)}; convert "
            "with the draft checkpoint of this model"
        )


def workspace_bytes(config: DraftConfig, geometry: Geometry, shape: BuildShape) -> int:
    """Upper bound of the temporaries of a round and of a chunk of a prompt."""
    decode_class = linear.DECODE_ROWS * shape.decode_columns
    round_tokens = shape.decode_rows * shape.decode_columns
    ingested = _context_bytes(config, shape, shape.prefill_tokens, 0)
    context = _context_bytes(config, shape, round_tokens, decode_class)
    block = _block_bytes(config, shape, round_tokens, decode_class)
    proposal = _proposal_bytes(config, geometry, shape, decode_class)
    return max(ingested, context, block, proposal)


def _product(shape: BuildShape, tokens: int, row_class: int, inputs: int, outputs: int) -> int:
    activation = DTYPE_BYTES[shape.activation_dtype]
    return linear.workspace_bytes(
        rows=tokens, inputs=inputs, outputs=outputs, row_class=row_class, activation=activation
    )


def _context_bytes(config: DraftConfig, shape: BuildShape, tokens: int, row_class: int) -> int:
    """The context, then keys and values of one layer, normed and rotated; the places that they go to."""
    activation = DTYPE_BYTES[shape.activation_dtype]
    hidden, kv = config.hidden_size, config.kv_width
    join = _product(shape, tokens, row_class, len(config.taps) * hidden, hidden)
    norm = rms_norm.workspace_bytes(elements=tokens * hidden)
    stored = (
        _product(shape, tokens, row_class, hidden, 2 * kv)
        + 2 * tokens * kv * (3 * activation + INT64)
        + rms_norm.workspace_bytes(elements=tokens * kv)
        + partial_rope.workspace_bytes(elements=tokens * kv, activation=activation)
    )
    return _angle_bytes(config, tokens) + tokens * hidden * activation + max(join + norm, stored)


def _block_bytes(config: DraftConfig, shape: BuildShape, tokens: int, row_class: int) -> int:
    """The largest place of a layer: attention over a ring, or the feed-forward part."""
    activation = DTYPE_BYTES[shape.activation_dtype]
    hidden, width = config.hidden_size, config.intermediate_size
    heads = config.query_width + 2 * config.kv_width
    seen = max(ring.tokens for ring in list_rings(config, shape.max_context)) + shape.decode_columns
    rows = shape.decode_rows
    attended = (
        _product(shape, tokens, row_class, hidden, heads)
        + rms_norm.workspace_bytes(elements=tokens * heads)
        + partial_rope.workspace_bytes(elements=tokens * heads, activation=activation)
        # Keys and values in their dtype, in float32 and once more without what nobody sees; scores and weights.
        + 2 * rows * seen * config.kv_width * (activation + 2 * FLOAT32)
        + 3 * tokens * config.query_heads * seen * FLOAT32
        + tokens * config.query_width * (FLOAT32 + activation)
        + _product(shape, tokens, row_class, config.query_width, hidden)
    )
    fed = (
        _product(shape, tokens, row_class, hidden, 2 * width)
        + swiglu.workspace_bytes(elements=max(tokens, row_class) * width, activation=activation)
        + _product(shape, tokens, row_class, width, hidden)
    )
    stream = 3 * tokens * hidden * activation + rms_norm.workspace_bytes(elements=tokens * hidden)
    return (
        _angle_bytes(config, tokens)
        + stream
        + _convolution_bytes(config, shape, tokens, row_class)
        + max(attended, fed)
    )


def _convolution_bytes(config: DraftConfig, shape: BuildShape, tokens: int, row_class: int) -> int:
    """Coefficients, and input, factor, product and sum in float32."""
    if config.additions is None:
        return 0
    coefficients = 2 * config.additions.taps * (config.hidden_size // config.additions.group)
    inside = 6 * tokens * config.hidden_size * FLOAT32
    return _product(shape, tokens, row_class, config.hidden_size, coefficients) + inside


def _proposal_bytes(config: DraftConfig, geometry: Geometry, shape: BuildShape, row_class: int) -> int:
    """Logits of the whole head, in float32 too, and the selection of the largest."""
    drafts = shape.decode_rows * (shape.decode_columns - 1)
    head = _product(shape, drafts, row_class, config.hidden_size, geometry.vocabulary_rows)
    chosen = sample.workspace_bytes(rows=drafts, vocabulary_rows=geometry.vocabulary_rows)
    return head + drafts * geometry.vocabulary_rows * FLOAT32 + chosen


def _angle_bytes(config: DraftConfig, tokens: int) -> int:
    return partial_rope.angle_bytes(tokens=tokens, pairs=config.head_dim // 2)
