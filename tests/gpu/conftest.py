"""What tests on a device share. A module that wants another `registry` has its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ninfer_core.plugins import PluginRegistry
from ninfer_core.testing.scripted_drafters import scripted_registry


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PluginRegistry]:
    """With the backend of drafters that tests make."""
    folder: Path = tmp_path_factory.mktemp("scripted")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield scripted_registry(folder)
