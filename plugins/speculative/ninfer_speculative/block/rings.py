"""Where the layers of a block drafter keep their context: arrays of every sequence, rings of tokens in them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ninfer_core.api import BuildShape, StateArray
from ninfer_speculative.block.config import DraftConfig

KEYS, VALUES = "draft_keys_", "draft_values_"
"""Beginnings of the names of the state arrays."""


class LayerRing(msgspec.Struct, frozen=True, kw_only=True):
    """Where a layer keeps its context: in layer `place` of the arrays `draft_keys_NAME` and `draft_values_NAME`."""

    name: str
    place: int
    tokens: int


def list_rings(config: DraftConfig, max_context: int) -> tuple[LayerRing, ...]:
    """Of each layer. A ring holds what any column of a block may see: as much as its window, and everything where there
    is none."""
    rings: list[LayerRing] = []
    for layer in config.layers:
        name, tokens = ("all", max_context) if layer.window is None else ("window", min(layer.window, max_context))
        place = sum(ring.name == name for ring in rings)
        rings.append(LayerRing(name=name, place=place, tokens=tokens))
    return tuple(rings)


def list_state(config: DraftConfig, shape: BuildShape) -> Iterator[StateArray]:
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
