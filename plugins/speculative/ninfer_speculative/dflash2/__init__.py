"""DFlash2: drafts a block in one pass, and chooses the tokens of its positions one after the other (speculative.md
section 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ninfer_core.api import hookimpl
from ninfer_speculative.block.config import SECOND, DraftConfig, parse_config
from ninfer_speculative.block.needs import draft_tokens, drafter_needs
from ninfer_speculative.block.resident import check_tensors

if TYPE_CHECKING:
    import torch

    from ninfer_core.api import (
        ArtifactHeader,
        BuildShape,
        Drafter,
        DrafterNeeds,
        DraftTokens,
        Geometry,
        Model,
        WeightSource,
    )

NAME = "dflash2"


@hookimpl
def ninfer_spec_draft_tokens(header: ArtifactHeader) -> DraftTokens:
    return draft_tokens(_config(header))


@hookimpl
def ninfer_spec_needs(header: ArtifactHeader, geometry: Geometry, shape: BuildShape) -> DrafterNeeds:
    return drafter_needs(header, _config(header), NAME, geometry, shape)


@hookimpl
def ninfer_spec_build(
    header: ArtifactHeader, shape: BuildShape, model: Model, weights: WeightSource, device: torch.device
) -> Drafter:
    from ninfer_speculative.block.drafter import build_drafter

    return build_drafter(header, _config(header), NAME, shape, model, weights, device)


def _config(header: ArtifactHeader) -> DraftConfig:
    config = parse_config(header, NAME, SECOND)
    check_tensors(header, config, NAME)
    return config
