"""The host side of an artifact: the frontend, held against the model it has to fit, or its output side alone."""

from __future__ import annotations

from ninfer_core.api.artifact import ArtifactHeader
from ninfer_core.api.errors import ArtifactInvalid
from ninfer_core.api.frontend import Frontend, OutputVocabulary
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


def output_vocabulary(family: LoadedPlugin, header: ArtifactHeader) -> OutputVocabulary:
    """What an engine process has of the frontend; the whole of it where the family makes no difference."""
    vocabulary: OutputVocabulary | None = family.hook.ninfer_family_vocabulary(header=header)
    if vocabulary is not None:
        return vocabulary
    frontend: Frontend = family.hook.ninfer_family_frontend(header=header)
    return frontend
