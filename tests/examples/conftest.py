"""A third-party package the way its user gets it: built as a wheel, installed in an environment of its own.

A module of tests names the package's folder in `EXAMPLE`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

SECONDS = 240

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def wheel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, without network: the build backend is taken from this environment."""
    folder = tmp_path_factory.mktemp("wheel")
    source = shutil.copytree(
        request.module.EXAMPLE, folder / "source", ignore=shutil.ignore_patterns("__pycache__", ".*")
    )
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(source)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def run(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs the Python of an environment of its own, where the wheel is installed.

    That environment sees the packages of this one (torch need not be installed twice), but not the other way round.
    """
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=SECONDS)
    python = folder / "bin" / "python"
    (site,) = folder.glob("lib/python3*/site-packages")
    here = sysconfig.get_paths()["purelib"]
    (site / "borrowed.pth").write_text(f"import site; site.addsitedir({here!r})\n")
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-index", "--quiet", str(wheel)]
    installed = subprocess.run(install, capture_output=True, text=True, timeout=SECONDS)
    assert installed.returncode == 0, installed.stderr

    def call(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **variables}
        command = [str(python), *words]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS)

    return call
