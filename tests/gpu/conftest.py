"""What tests on a device share. A module that wants another `registry` has its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ninfer_core.plugins import PluginRegistry
from tests.scripted_backend import scripted

__all__ = ["scripted"]

FIGURES_FOLDER = "--results"

SECONDS: Mapping[str, int] = {
    "test_near_ties": 90,
    "test_rounds_ahead": 90,
    "test_routes": 85,
    "test_near_ties_trained": 70,
    "test_drafted_rounds": 65,
    "test_family": 45,
    "test_dflash": 40,
    "test_linear": 40,
    "test_program": 35,
    "test_attention": 30,
    "test_block_drafters": 30,
    "test_experts": 30,
    "test_accept": 25,
    "test_linear_pairs": 20,
    "test_weights": 15,
    "test_small_ops": 15,
}
"""Of files, about, on an H200 with no kernel compiled before: long ones begin first, so that no process is left alone
with one at the end."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    items.sort(key=lambda item: -SECONDS.get(item.path.stem, 0) if item.path.parent == here else 0)


@pytest.fixture(scope="module")
def registry(scripted: PluginRegistry) -> PluginRegistry:
    return scripted


@pytest.fixture(scope="session")
def report(request: pytest.FixtureRequest) -> Callable[[str, Mapping[str, object]], None]:
    """Leaves figures under a name for whoever asked for them."""
    folder: str | None = request.config.getoption(FIGURES_FOLDER)

    def written(name: str, figures: Mapping[str, object]) -> None:
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
            (Path(folder) / f"{name}.json").write_text(json.dumps(figures, indent=1))

    return written
