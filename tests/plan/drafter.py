"""A backend of speculation for plans: what it needs is read from the artifact's config, so that tests can say it."""

from __future__ import annotations

SPEC_SOURCE = """
from ninfer_core.api import (
    DrafterNeeds, DraftTokens, FINAL_HIDDEN, PluginIncompatible, StateArray, TensorSpec, hookimpl,
)

@hookimpl
def ninfer_spec_draft_tokens(header):
    if header.config.get("lacks"):
        raise PluginIncompatible("the artifact has no head to draft with; convert it with --draft")
    return DraftTokens(most=7, default=3)

@hookimpl
def ninfer_spec_needs(header, geometry, shape):
    if shape.max_context > 20000:
        raise PluginIncompatible(f"drafts over 20000 tokens of context, not {shape.max_context}")
    return DrafterNeeds(
        groups=("mtp",) if header.config.get("mtp") else ("draft",) if header.config.get("checkpoint") else (),
        resident=(TensorSpec(name="draft.fc", shape=(64, 128), dtype=shape.activation_dtype),),
        taps=(header.config.get("tap", 1), FINAL_HIDDEN),
        kv_layers=1,
        state=(StateArray(name="ring", layers=2, shape=(16, 8), dtype=shape.activation_dtype),),
        workspace_bytes=1000 * shape.decode_columns + shape.prefill_tokens,
    )

@hookimpl
def ninfer_spec_build(header, shape, model, weights, device):
    raise NotImplementedError
"""

INVENTORY_SOURCE = """
@hookimpl
def ninfer_spec_inventory(header, geometry):
    if header.config.get("foreign"):
        raise PluginIncompatible("the checkpoint was made for another model")
    return (TensorSpec(name="draft.fc", shape=(geometry.hidden_size, 128), dtype="bfloat16", group="draft"),)
"""
"""Put behind the other, of a backend that reads a draft checkpoint."""
