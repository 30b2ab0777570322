"""What a user installs: six wheels of one version, each with all that its packages need."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECTS = [ROOT, *sorted(path.parent for path in ROOT.glob("plugins/*/pyproject.toml"))]
NOT_SOURCE = ("__pycache__", ".*", "out", "tests", "bench", "tools", "docs", "examples")


def project_of(folder: Path) -> dict[str, object]:
    project: dict[str, object] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return project


def test_all_distributions_have_one_version_and_depend_on_exactly_that_core() -> None:
    core = project_of(ROOT)
    for folder in PROJECTS[1:]:
        project = project_of(folder)
        dependencies = project["dependencies"]
        assert project["version"] == core["version"]
        assert isinstance(dependencies, list) and f"ninfer=={core['version']}" in dependencies


@pytest.mark.long
@pytest.mark.parametrize("folder", PROJECTS, ids=lambda folder: str(project_of(folder)["name"]))
def test_a_wheel_holds_every_file_of_its_package(folder: Path, tmp_path: Path) -> None:
    source = shutil.copytree(folder, tmp_path / "source", ignore=shutil.ignore_patterns(*NOT_SOURCE))
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(source)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    (package,) = source.glob("ninfer_*/")
    files = {path.relative_to(source).as_posix() for path in package.rglob("*") if path.is_file()}
    assert {name for name in packed if name.startswith(package.name + "/")} == files
    assert f"{package.name}/py.typed" in packed
    assert (package / "ninfer.toml").exists() == (f"{package.name}/ninfer.toml" in packed)
