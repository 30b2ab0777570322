"""Within a launch the language is given to the functions of a kernel once, and again in the next one."""

from __future__ import annotations

from types import FunctionType

import pytest

from ninfer_core.testing.interpreter import PatchOnce


class Scope:
    def __init__(self, restored: list[str], name: str) -> None:
        self._restored, self._name = restored, name

    def restore(self) -> None:
        self._restored.append(self._name)


def function(name: str, **seen: object) -> FunctionType:
    return FunctionType((lambda: None).__code__, seen, name)


def test_each_view_of_the_language_is_patched_once_a_launch() -> None:
    language = pytest.importorskip("triton.language")
    patched: list[str] = []
    restored: list[str] = []

    def patch(kernel: FunctionType) -> Scope:
        patched.append(kernel.__name__)
        return Scope(restored, kernel.__name__)

    once = PatchOnce(patch)
    kernel, helper = function("kernel", tl=language), function("helper", tl=language)
    standard, other = function("standard", core=language.core), function("other", tl=language, core=language.core)
    for launch in (1, 2):
        scope = once(kernel)
        for called in (helper, standard, helper, other, standard, other):
            once(called)
        assert patched == ["kernel", "standard", "other"] * launch
        assert restored == ["kernel"] * (launch - 1)
        scope.restore()
    assert restored == ["kernel"] * 2
