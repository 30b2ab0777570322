"""Finds out what an artifact argument means and opens it."""

from __future__ import annotations

from pathlib import Path

from ninfer_core.api.errors import ArtifactInvalid
from ninfer_core.artifact.container import SUFFIX, open_container
from ninfer_core.artifact.dummy import PREFIX, dummies, open_dummy
from ninfer_core.artifact.embedded import EMBEDDED_PREFIX, EMBEDDED_SOURCE, embedded_artifact
from ninfer_core.artifact.handle import ArtifactHandle
from ninfer_core.artifact.huggingface import open_directory
from ninfer_core.artifact.json_object import encodable
from ninfer_core.plugins import PluginRegistry
from ninfer_core.plugins.suggest import suggestion


def open_artifact(source: str | None, registry: PluginRegistry) -> ArtifactHandle:
    """Open a `.ninfer` file, a Hugging Face directory, `dummy:NAME`, or an embedded model: `embedded:NAME`, or None.

    Reads and checks headers and frontend resources, never weights; imports no torch. `header.source` is a string
    that opens the same artifact again. Raises ArtifactInvalid with every problem found, and near misses for a
    name that is not there.
    """
    source = EMBEDDED_SOURCE if source is None else source
    if not encodable(source):
        raise ArtifactInvalid(source, ["its name is no UTF-8, so no plan could name it"])
    if source.startswith(EMBEDDED_PREFIX):
        return open_container(embedded_artifact(source.removeprefix(EMBEDDED_PREFIX)), source)
    if source.startswith(PREFIX):
        return open_dummy(source.removeprefix(PREFIX), registry)
    try:
        return _open_path(source, registry)
    except (OSError, RuntimeError) as error:
        # A path too long, a folder that may not be entered, `~nobody`.
        reason = error.strerror if isinstance(error, OSError) else error
        raise ArtifactInvalid(source, [f"it cannot be opened: {reason}"]) from None


def _open_path(source: str, registry: PluginRegistry) -> ArtifactHandle:
    path = Path(source).expanduser()
    if path.is_dir():
        return open_directory(path, source)
    if not path.exists():
        raise ArtifactInvalid(source, [_absent(source, path, registry)])
    if path.suffix != SUFFIX:
        raise ArtifactInvalid(source, [_wrong_suffix(path)])
    if not path.is_file():
        raise ArtifactInvalid(source, ["it is no regular file"])
    return open_container(path, source)


def _absent(source: str, path: Path, registry: PluginRegistry) -> str:
    """Whatever the argument might have meant: a file or directory beside it, or a dummy without its prefix."""
    offered, _ = dummies(registry)
    known = [PREFIX + name for name in offered]
    if path.parent.is_dir():
        siblings = (found for found in path.parent.iterdir() if found.is_dir() or found.suffix == SUFFIX)
        known.extend(str(found) for found in siblings if not found.name.startswith("."))
    if source in offered:
        return f"there is no such file or directory; did you mean '{PREFIX}{source}'?"
    kinds = f"an artifact is a {SUFFIX} file, a Hugging Face directory or {PREFIX}NAME"
    return f"there is no such file or directory{suggestion(str(path), known)}; {kinds}"


def _wrong_suffix(path: Path) -> str:
    if path.name.endswith((".safetensors", ".safetensors.index.json", "config.json")):
        return f"weights need the config and tokenizer beside them; name the directory, {str(path.parent)!r}"
    return f"its name does not end in {SUFFIX}; `ninfer convert` makes such a file from a Hugging Face directory"
