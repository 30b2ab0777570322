"""The frontend of an artifact, held against the model it has to fit."""

from __future__ import annotations

from ninfer_core.api.artifact import ArtifactHeader
from ninfer_core.api.errors import ArtifactInvalid
from ninfer_core.api.frontend import Frontend
from ninfer_core.api.geometry import Geometry
from ninfer_core.plugins.loading import LoadedPlugin


def checked_frontend(family: LoadedPlugin, header: ArtifactHeader, geometry: Geometry) -> Frontend:
    """The family's frontend for `header`. Raises ArtifactInvalid when its ids go beyond the rows of the embedding."""
    frontend: Frontend = family.hook.ninfer_family_frontend(header=header)
    rows, largest = geometry.vocabulary_rows, frontend.token_domain - 1
    if not 0 <= largest < rows:
        raise ArtifactInvalid(
            header.source, [f"the tokenizer has ids up to {largest}, but the embedding has {rows} rows (vocab_size)"]
        )
    return frontend
