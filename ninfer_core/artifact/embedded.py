"""Where the tiny model is that serves when no artifact is named."""

from __future__ import annotations

from pathlib import Path

from ninfer_core.api.errors import ArtifactInvalid
from ninfer_core.plugins.offer import package_locations

EMBEDDED_SOURCE = "embedded:ninfer-tiny"
"""How a plan names it, wherever it is installed."""

_PACKAGE = "ninfer_models"
_FILE = "assets/ninfer-tiny.ninfer"


def embedded_artifact(package: str = _PACKAGE) -> Path:
    """The packaged file. Raises ArtifactInvalid when the package or the file in it is not there."""
    locations = package_locations(package)
    if locations is None:
        raise ArtifactInvalid(EMBEDDED_SOURCE, ["it comes with ninfer-models, not installed here: pip install it"])
    for location in locations:
        path = Path(location, _FILE)
        if path.is_file():
            return path
    place = Path(locations[0] if locations else package, _FILE)
    remedy = f"reinstall ninfer-models, or in a clone run `ninfer convert DIRECTORY -o {place}`"
    raise ArtifactInvalid(EMBEDDED_SOURCE, [f"package {package} has no {_FILE}; {remedy}"])
