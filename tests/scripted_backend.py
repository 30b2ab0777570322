"""The backend of drafters that tests make, as a fixture for the conftest of any folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ninfer_core.plugins import PluginRegistry
from ninfer_core.testing.scripted_drafters import scripted_registry


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PluginRegistry]:
    """What is installed, and that backend; for one module, since tests of others list what is installed."""
    folder: Path = tmp_path_factory.mktemp("scripted")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield scripted_registry(folder)
