"""Triton's interpreter, made quicker for tests.

It puts its own operations into the language for a kernel, and once more whenever the kernel calls a function, where
they are already: of a kernel of many functions that is a third of its time. Here they are put there once a launch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any


@dataclass(slots=True)
class PatchOnce:
    """In place of what patches the language for a function. Modules see the language, its core or both: `views` are
    those of functions, `done` those that have been patched since the launch began."""

    patch: Callable[[FunctionType], Any]
    views: dict[FunctionType, frozenset[str]] = field(default_factory=dict)
    done: set[frozenset[str]] = field(default_factory=set)

    def __call__(self, function: FunctionType) -> Any:
        """For a kernel, the scope whose `restore` ends its launch. Nobody asks for one within."""
        view = self.views.get(function)
        if view is None:
            view = self.views[function] = _view(function)
        if view in self.done:
            return None
        launched = not self.done
        scope = self.patch(function)
        self.done.add(view)
        return _Scope(scope, self.done) if launched else None


@dataclass(frozen=True, slots=True)
class _Scope:
    inner: Any
    done: set[frozenset[str]]

    def restore(self) -> None:
        self.done.clear()
        self.inner.restore()


def _view(function: FunctionType) -> frozenset[str]:
    from triton import language

    names = {id(language): "language", id(language.core): "core"}
    return frozenset(names[id(each)] for each in function.__globals__.values() if id(each) in names)


def patch_once_a_launch() -> None:
    """From now on, in this process."""
    from triton.runtime import interpreter

    if not isinstance(interpreter._patch_lang, PatchOnce):
        interpreter._patch_lang = PatchOnce(interpreter._patch_lang)
