"""What a block drafter needs of a plan: its weights, its taps, a ring of context for every sequence, temporaries."""

from __future__ import annotations

from ninfer_core.api import (
    DRAFT_CONFIG,
    DRAFT_GROUP,
    MOST_DRAFT_TOKENS,
    ArtifactHeader,
    BuildShape,
    DrafterNeeds,
    DraftTokens,
    Geometry,
    PluginIncompatible,
)
from ninfer_core.api.stored_matrix import FP8_CODES, NVFP4_CODES
from ninfer_core.ops.workspace.draft_walk import CHOICES
from ninfer_speculative.block.config import DraftConfig
from ninfer_speculative.block.resident import list_pieces
from ninfer_speculative.block.rings import list_state
from ninfer_speculative.block.workspace import workspace_bytes

_CODES = (FP8_CODES, NVFP4_CODES)


def draft_tokens(config: DraftConfig) -> DraftTokens:
    """A block may be wider or narrower than the one it was trained with; by default it is that one."""
    return DraftTokens(most=MOST_DRAFT_TOKENS, default=config.block_size - 1)


def drafter_needs(header: ArtifactHeader, config: DraftConfig, geometry: Geometry, shape: BuildShape) -> DrafterNeeds:
    """What the plan pays for."""
    coded = any(tensor.dtype in _CODES for tensor in header.tensors)
    pieces = list_pieces(config, shape.activation_dtype)
    return DrafterNeeds(
        groups=(DRAFT_GROUP,),
        resident=tuple(piece.spec for piece in pieces),
        taps=config.taps,
        state=tuple(list_state(config, shape)),
        law_width=0 if config.additions is None else CHOICES,
        workspace_bytes=workspace_bytes(config, geometry, shape, coded=coded),
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
