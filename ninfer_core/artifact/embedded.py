"""Where the small models are that come with ninfer; one of them serves when no artifact is named."""

from __future__ import annotations

from pathlib import Path

from ninfer_core.api.errors import ArtifactInvalid
from ninfer_core.plugins.offer import package_locations
from ninfer_core.plugins.suggest import suggestion

EMBEDDED_PREFIX = "embedded:"
EMBEDDED_NAMES = ("ninfer-tiny", "ninfer-tiny-moe")
EMBEDDED_SOURCE = f"{EMBEDDED_PREFIX}{EMBEDDED_NAMES[0]}"
"""How a plan names the one that serves by default, wherever it is installed."""

_PACKAGE = "ninfer_models"


def embedded_artifact(name: str = EMBEDDED_NAMES[0], package: str = _PACKAGE) -> Path:
    """The packaged file. Raises ArtifactInvalid for another name, or when the package or the file is not there."""
    source = f"{EMBEDDED_PREFIX}{name}"
    if name not in EMBEDDED_NAMES:
        near = suggestion(name, EMBEDDED_NAMES)
        raise ArtifactInvalid(source, [f"no such model comes with ninfer{near}; there are {', '.join(EMBEDDED_NAMES)}"])
    file = f"assets/{name}.ninfer"
    locations = package_locations(package)
    if locations is None:
        raise ArtifactInvalid(source, ["it comes with ninfer-models, not installed here: pip install it"])
    for location in locations:
        path = Path(location, file)
        if path.is_file():
            return path
    place = Path(locations[0] if locations else package, file)
    remedy = f"reinstall ninfer-models, or in a clone run `ninfer convert DIRECTORY -o {place}`"
    raise ArtifactInvalid(source, [f"package {package} has no {file}; {remedy}"])
