"""The hooks of a backend that drafts a block at a time, for a draft checkpoint of one architecture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ninfer_core.api import hookimpl
from ninfer_speculative.block.needs import check_target, draft_tokens, drafter_needs
from ninfer_speculative.block.reading import has_drafter, parse_config
from ninfer_speculative.block.resident import list_tensors

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
        TensorSpec,
        WeightSource,
    )


class BlockBackend:
    """What DFlash and DFlash2 differ in stands in the config that their architecture has read. An entry point names a
    module that hands out the hooks of one."""

    def __init__(self, architecture: str) -> None:
        self._architecture = architecture

    @hookimpl
    def ninfer_spec_inventory(self, header: ArtifactHeader, geometry: Geometry) -> Sequence[TensorSpec] | None:
        if not has_drafter(header, self._architecture):
            return None
        config = parse_config(header, self._architecture)
        check_target(header, config, geometry)
        return list_tensors(header, config)

    @hookimpl
    def ninfer_spec_draft_tokens(self, header: ArtifactHeader) -> DraftTokens:
        return draft_tokens(parse_config(header, self._architecture))

    @hookimpl
    def ninfer_spec_needs(self, header: ArtifactHeader, geometry: Geometry, shape: BuildShape) -> DrafterNeeds:
        config = parse_config(header, self._architecture)
        check_target(header, config, geometry)
        return drafter_needs(header, config, geometry, shape)

    @hookimpl
    def ninfer_spec_build(
        self, header: ArtifactHeader, shape: BuildShape, model: Model, weights: WeightSource, device: torch.device
    ) -> Drafter:
        from ninfer_speculative.block.drafter import build_drafter

        return build_drafter(header, parse_config(header, self._architecture), shape, model, weights, device)
