"""By what an artifact is known again without reading its weights."""

from __future__ import annotations

import hashlib
import json

from ninfer_core.api.artifact import ArtifactHeader


def artifact_fingerprint(header: ArtifactHeader) -> str:
    """SHA-256, in hex, over the config, the bytes of every resource, names, shapes and dtypes of all tensors, and the
    sizes of the files that hold them.

    Neither the place of the artifact nor its names are in it, so that a copy has the fingerprint of its original.
    Weights whose values were changed in place are not noticed.
    """
    document = {
        "config": header.config,
        "resources": {name: hashlib.sha256(data).hexdigest() for name, data in header.resources.items()},
        "tensors": [(spec.name, spec.shape, spec.dtype) for spec in header.tensors],
        "file_bytes": header.file_bytes,
    }
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
