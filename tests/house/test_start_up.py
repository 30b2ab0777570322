"""Help and listings stay fast whatever is installed: time is measured as processor time, imports are counted."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from ninfer_core.testing.plugins import write_plugin_package

BUDGET_SECONDS = 0.4
HEAVY = {"torch", "triton", "transformers", "tokenizers", "numpy", "litestar", "uvicorn", "rich", "jinja2", "httpx"}
FIRST_PARTY = {"ninfer_protocols", "ninfer_models", "ninfer_kvformats", "ninfer_speculative", "ninfer_media"}
SCRIPT = """
import sys
from ninfer_core.cli.main import main
code = main(sys.argv[1:])
print("\\n" + " ".join(sys.modules))
sys.exit(code)
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Ten more plugin packages are installed, each of which would take an hour to import."""
    folder = tmp_path_factory.mktemp("slow")
    for index in range(10):
        write_plugin_package(folder, f"slow-{index}", {f"kv:slow-{index}": "import time; time.sleep(3600)"})
    return {**os.environ, "PYTHONPATH": str(folder)}


def run(environment: dict[str, str], *words: str) -> tuple[str, set[str], float]:
    """Standard output, the modules that were loaded, and seconds of processor time, user and system."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *words], env=environment, capture_output=True, text=True, timeout=60
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    out, _, modules = done.stdout.rstrip("\n").rpartition("\n")
    return out, set(modules.split()), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize(
    "words",
    [["--help"], ["plugins", "--help"], ["plugins", "list"], ["plugins", "list", "--kind", "kv", "--json"]],
    ids=" ".join,
)
def test_it_is_fast_and_imports_neither_torch_nor_a_plugin(environment: dict[str, str], words: list[str]) -> None:
    runs = [run(environment, *words) for _ in range(3)]
    for _, modules, _ in runs:
        tops = {module.partition(".")[0] for module in modules}
        assert tops & HEAVY == set()
        assert tops & FIRST_PARTY == set()
        assert [top for top in tops if top.startswith("slow_")] == []
    assert statistics.median(seconds for _, _, seconds in runs) < BUDGET_SECONDS


def test_the_slow_plugins_were_there_to_be_imported(environment: dict[str, str]) -> None:
    out, _, _ = run(environment, "plugins", "list", "--kind", "kv", "--json")
    lines = [line for line in json.loads(out) if line["package"].startswith("slow-")]
    ready = [line["name"] for line in lines if line["state"] == "ready"]
    assert ready == [f"slow-{index}" for index in range(10)]


def test_the_installed_command_is_the_one_measured() -> None:
    command = Path(sys.executable).with_name("ninfer")
    shown = subprocess.run([str(command), "--help"], capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0 and shown.stdout.startswith("Usage: ninfer ")
