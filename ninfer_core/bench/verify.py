"""The backend `verify`: drafts that nobody drafts, so that a round is nothing but the check of so many columns.

No package offers it and no server knows it: `ninfer bench engine --spec verify --draft-tokens 3` alone does. What such
a round takes over a step is the least that any drafter costs.
"""

from __future__ import annotations

import random
from importlib.metadata import version
from typing import TYPE_CHECKING

from ninfer_core.api import MOST_DRAFT_TOKENS, Draft, DrafterNeeds, DraftTokens, hookimpl
from ninfer_core.api.manifest import Manifest
from ninfer_core.api.version import API_VERSION
from ninfer_core.plugins.offer import PluginOffer
from ninfer_core.plugins.registry import PluginRegistry

if TYPE_CHECKING:
    import torch

    from ninfer_core.api import (
        ArtifactHeader,
        BuildShape,
        DraftColumns,
        Drafter,
        DraftSampling,
        Geometry,
        Model,
        WeightSource,
    )

PACKAGE = "ninfer"
LOWEST_TOKENS = 256
"""Drafts are some of these, which every vocabulary has. They differ, so that behind a router they choose experts as
tokens of a text do."""


@hookimpl
def ninfer_spec_draft_tokens(header: ArtifactHeader) -> DraftTokens:
    return DraftTokens(most=MOST_DRAFT_TOKENS, default=3)


@hookimpl
def ninfer_spec_needs(header: ArtifactHeader, geometry: Geometry, shape: BuildShape) -> DrafterNeeds:
    return DrafterNeeds()


@hookimpl
def ninfer_spec_build(
    header: ArtifactHeader, shape: BuildShape, model: Model, weights: WeightSource, device: torch.device
) -> Drafter:
    return GivenDrafts(shape.decode_rows, shape.decode_columns - 1, device)


class GivenDrafts:
    """Implements Drafter without a launch: of every round the same drafts."""

    def __init__(self, rows: int, drafts: int, device: torch.device) -> None:
        import torch

        generator = random.Random(0)
        token_ids = [[generator.randrange(LOWEST_TOKENS) for _ in range(drafts)] for _ in range(rows)]
        self._token_ids = torch.tensor(token_ids, device=device)

    def ingest(self, columns: DraftColumns) -> None:
        return

    def propose(self, columns: DraftColumns, sampling: DraftSampling) -> Draft:
        return Draft(self._token_ids[: columns.slots.shape[0]])


def with_verify(registry: PluginRegistry) -> PluginRegistry:
    """The registry, and this backend in it."""
    offer = PluginOffer(
        kind="spec",
        name="verify",
        package=PACKAGE,
        version=version(PACKAGE),
        target=__name__,
        manifest=Manifest(api=API_VERSION, summary="Drafts that nobody drafts, for benchmarks"),
        manifest_problem=None,
        first_party=True,
    )
    return PluginRegistry((*registry.offers(), offer), registry.blocked())
