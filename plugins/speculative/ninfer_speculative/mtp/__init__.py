"""Drafts by the multi-token prediction head that the target's own checkpoint ships (docs/speculation.md,
"The next-token head as a drafter").

The head reads what the target's own head reads, keeps keys and values of one layer in the paged cache, and is applied
again to its own output for every further draft. Its drafts are certain: the likeliest token at every temperature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ninfer_core.api import (
    DTYPE_BYTES,
    FINAL_HIDDEN,
    DrafterNeeds,
    DraftTokens,
    PluginIncompatible,
    hookimpl,
)
from ninfer_core.ops.workspace import likeliest

if TYPE_CHECKING:
    import torch

    from ninfer_core.api import ArtifactHeader, BuildShape, Drafter, Geometry, Model, WeightSource

MOST_DRAFTS, DEFAULT_DRAFTS = 5, 3
"""Applied to its own output again and again, the head says less and less that is right."""

_GROUP = "mtp"
_PREFIX = "mtp."


@hookimpl
def ninfer_spec_draft_tokens(header: ArtifactHeader) -> DraftTokens:
    if not any(tensor.name.startswith(_PREFIX) for tensor in header.tensors):
        raise PluginIncompatible(
            f"it drafts with the head that a checkpoint ships under {_PREFIX}*, and {header.source} has none; convert "
            "a checkpoint that was published with it (saving a model again drops it), or draft with --spec dflash2 "
            "after `ninfer convert HF_DIR --draft DRAFT_DIR`"
        )
    return DraftTokens(most=MOST_DRAFTS, default=DEFAULT_DRAFTS)


@hookimpl
def ninfer_spec_needs(header: ArtifactHeader, geometry: Geometry, shape: BuildShape) -> DrafterNeeds:
    return DrafterNeeds(
        groups=(_GROUP,),
        taps=(FINAL_HIDDEN,),
        kv_layers=1,
        workspace_bytes=_workspace_bytes(geometry, shape),
    )


@hookimpl
def ninfer_spec_build(
    header: ArtifactHeader, shape: BuildShape, model: Model, weights: WeightSource, device: torch.device
) -> Drafter:
    from ninfer_speculative.mtp.drafter import build_drafter

    return build_drafter(model, shape, device)


def _workspace_bytes(geometry: Geometry, shape: BuildShape) -> int:
    """What the head gives for all columns, and for each row the hidden state and token that a draft comes from, and the
    search for it. What the head and the logits take on the way is the family's to count."""
    vector = geometry.hidden_size * DTYPE_BYTES[shape.activation_dtype]
    columns = max(shape.prefill_tokens, shape.decode_rows * shape.decode_columns)
    kept = shape.decode_columns * 4 * DTYPE_BYTES["int64"]
    search = likeliest.workspace_bytes(columns=shape.decode_rows, proposed=geometry.vocabulary_rows)
    return columns * vector + shape.decode_rows * (2 * vector + kept) + search
