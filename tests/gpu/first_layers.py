"""Published shapes of which a test takes the first layers alone: on a device that others use too, whole models do not
fit beside each other."""

from __future__ import annotations

import msgspec

from ninfer_core.api import ArtifactHeader
from ninfer_core.artifact.dummy import DummyStore
from ninfer_core.artifact.handle import ArtifactHandle


def first_layers(header: ArtifactHeader, layers: int) -> ArtifactHandle:
    """A dummy of the first `layers` layers, and of all that is no layer's."""
    config = {**header.config, "num_hidden_layers": layers}
    if isinstance(kinds := config.get("layer_types"), list):
        config["layer_types"] = kinds[:layers]
    kept = tuple(spec for spec in header.tensors if _layer_of(spec.name) < layers)
    header = msgspec.structs.replace(header, config=config, tensors=kept)
    return ArtifactHandle(header=header, notes=(), store=DummyStore(header))


def _layer_of(name: str) -> int:
    parts = name.split(".")
    return int(parts[parts.index("layers") + 1]) if "layers" in parts else -1
