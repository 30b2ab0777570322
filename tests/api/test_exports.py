from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

from ninfer_core import api

MODULES = sorted(path.stem for path in Path(api.__file__).parent.glob("[a-z]*.py"))


@pytest.mark.parametrize("name", MODULES)
def test_every_public_class_is_offered_by_the_package(name: str) -> None:
    module = importlib.import_module(f"ninfer_core.api.{name}")
    own = {
        word
        for word, member in inspect.getmembers(module, inspect.isclass)
        if member.__module__ == module.__name__ and not word.startswith("_")
    }
    assert own - set(api.__all__) == set()
    assert all(getattr(api, word) is getattr(module, word) for word in own)


def test_what_is_named_is_there_and_sorted_out_once() -> None:
    assert len(set(api.__all__)) == len(api.__all__)
    assert all(hasattr(api, word) for word in api.__all__)
