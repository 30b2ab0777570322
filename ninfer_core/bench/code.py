"""Which code is measured: by the bytes that run, and by its commit where those are the commit's."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ninfer_core.plan.pins import DEVICE_KINDS
from ninfer_core.plugins.offer import package_locations
from ninfer_core.plugins.registry import PluginRegistry

CORE = Path(__file__).parents[1]
MEASURED = ("api", "artifact", "bench", "engine", "ops", "plan", "plugins", "program")
"""Packages of the core that a figure can depend on."""
DIGEST_LENGTH = 12
PATIENCE_SECONDS = 10.0


class Code(NamedTuple):
    """`digest` is of the sources of the core and of the plugins on the device's side. `commit` is empty where there is
    no checkout, or one in which sources were changed."""

    digest: str
    commit: str


def code_of(registry: PluginRegistry) -> Code:
    """The code of this process, with the plugins that it could choose."""
    digest = hashlib.sha256()
    for name, path in sorted(_sources(registry)):
        content = path.read_bytes()
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return Code(digest.hexdigest()[:DIGEST_LENGTH], _commit(CORE.parent))


def _sources(registry: PluginRegistry) -> Iterator[tuple[str, Path]]:
    """Names that are the same wherever it is installed, and files."""
    modules = {offer.target.partition(":")[0] for offer in registry.offers() if offer.kind in DEVICE_KINDS}
    packages = {module.partition(".")[0] for module in modules} - {CORE.name}
    folders = [CORE / name for name in MEASURED]
    folders += [Path(location) for package in packages for location in package_locations(package) or ()]
    for folder in folders:
        yield from ((path.relative_to(folder.parent).as_posix(), path) for path in folder.rglob("*.py"))


def _commit(root: Path) -> str:
    """Of the checkout whose root this is."""
    if not (root / ".git").exists():
        return ""
    changed = _git(root, "status", "--porcelain", "--", "*.py")
    return "" if changed is None or changed else (_git(root, "rev-parse", "HEAD") or "")[:DIGEST_LENGTH]


def _git(root: Path, *words: str) -> str | None:
    """What it prints; None where it cannot be asked. Whoever works in the checkout meanwhile finds no lock."""
    try:
        found = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(root), *words],
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()
