"""Plugin packages made on the spot, as an installer would leave them: real files, real metadata."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from pathlib import Path


def write_plugin_package(
    folder: Path,
    package: str,
    plugins: Mapping[str, str],
    *,
    version: str = "1.0",
    manifest: str | None = None,
    import_name: str | None = None,
) -> str:
    """Write an installed distribution `package` into `folder` and return the name it is imported under.

    `plugins` maps `kind:name` to the source of a module of its own. `manifest` is the text of `ninfer.toml`; None
    writes one that asks for nothing, an empty string leaves the file out. The caller puts `folder` on `sys.path`
    (pytest: `monkeypatch.syspath_prepend`) before plugins are discovered.
    """
    top_level = import_name or package.replace("-", "_").replace(".", "_")
    root = folder / top_level
    root.mkdir(parents=True)
    (root / "__init__.py").write_text("")
    groups: dict[str, list[str]] = {}
    for reference, source in plugins.items():
        kind, _, name = reference.partition(":")
        module = f"{kind}_{name}".replace("-", "_").replace(".", "_")
        (root / f"{module}.py").write_text(source)
        groups.setdefault(kind, []).append(f"{name} = {top_level}.{module}")
    text = _plain_manifest(plugins) if manifest is None else manifest
    if text:
        (root / "ninfer.toml").write_text(text)
    _write_metadata(folder / f"{top_level}-{version}.dist-info", package, version, groups)
    return top_level


def entry_points_in(folder: Path) -> list[EntryPoint]:
    """Entry points of the distributions in `folder`, for `PluginRegistry.discover(entry_points=...)`."""
    return [entry for found in importlib.metadata.distributions(path=[str(folder)]) for entry in found.entry_points]


def _plain_manifest(plugins: Mapping[str, str]) -> str:
    tables = []
    for reference in plugins:
        kind, _, name = reference.partition(":")
        tables.append(f'[{kind}."{name}"]\napi = 1\nsummary = "{name} for a test"\n')
    return "\n".join(tables)


def _write_metadata(folder: Path, package: str, version: str, groups: Mapping[str, list[str]]) -> None:
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    sections = [f"[ninfer.{kind}]\n" + "\n".join(lines) for kind, lines in groups.items()]
    (folder / "entry_points.txt").write_text("\n\n".join(sections) + "\n")
