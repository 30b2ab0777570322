"""Artifacts: the `.ninfer` container, Hugging Face directories and dummies, opened and checked without torch."""

from __future__ import annotations

from ninfer_core.artifact.embedded import EMBEDDED_SOURCE, embedded_artifact
from ninfer_core.artifact.handle import ArtifactHandle
from ninfer_core.artifact.inventory import inventory_problems
from ninfer_core.artifact.source import open_artifact
from ninfer_core.artifact.weights import OpenWeights

__all__ = [
    "EMBEDDED_SOURCE",
    "ArtifactHandle",
    "OpenWeights",
    "embedded_artifact",
    "inventory_problems",
    "open_artifact",
]
