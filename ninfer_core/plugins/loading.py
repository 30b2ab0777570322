"""Imports one chosen plugin and binds its hooks. The only place where plugin code is let in."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pluggy

from ninfer_core.api.errors import NinferError, PluginBroken
from ninfer_core.api.hooks import SPECS_BY_KIND, is_optional
from ninfer_core.api.plan import PluginPin
from ninfer_core.plugins.offer import PluginOffer
from ninfer_core.plugins.returns import wrong_return


class HookRelay:
    """The hooks of one plugin as attributes, called with keyword arguments.

    A hook of its kind that the plugin does not implement, or that gives back nothing or something else than its spec
    says, raises PluginBroken, and so does any exception out of a hook, SystemExit too, that is neither a NinferError
    nor a KeyboardInterrupt. Hooks that are marked optional give None when they are not implemented. A name that is no
    hook of the kind is an AttributeError.
    """

    __slots__ = ("_callers", "_kind", "_label")

    def __init__(self, offer: PluginOffer, manager: pluggy.PluginManager) -> None:
        self._label = offer.label
        self._kind = offer.kind
        self._callers = {name: getattr(manager.hook, name) for name in hook_names(offer.kind)}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in self._callers:
            raise AttributeError(f"{name} is no hook of {SPECS_BY_KIND[self._kind].__name__}")
        return lambda **arguments: self._call(name, arguments)

    def implements(self, name: str) -> bool:
        return bool(self._callers[name].get_hookimpls())

    def _call(self, name: str, arguments: dict[str, Any]) -> Any:
        optional = is_optional(self._kind, name)
        if not self.implements(name):
            if optional:
                return None
            raise PluginBroken(f"{self._label} does not implement {name}, which is needed here")
        with failures_of(self._label, name):
            result = self._callers[name](**arguments)
        if result is None:
            if optional:
                return None
            raise PluginBroken(f"{self._label} gave nothing back from {name}")
        if (wrong := wrong_return(name, result)) is not None:
            raise PluginBroken(f"{self._label} gave back something wrong from {name}: {wrong}")
        return result


@dataclass(frozen=True, slots=True)
class LoadedPlugin:
    """An imported plugin. `hook` reaches this plugin alone."""

    offer: PluginOffer
    hook: HookRelay

    @property
    def pin(self) -> PluginPin:
        offer = self.offer
        return PluginPin(kind=offer.kind, name=offer.name, package=offer.package, version=offer.version)

    def implements(self, hook_name: str) -> bool:
        """Whether the plugin itself has that hook of its kind."""
        return self.hook.implements(hook_name)

    def hooks(self) -> tuple[str, ...]:
        """The hooks of the plugin's kind that it implements."""
        return tuple(name for name in hook_names(self.offer.kind) if self.implements(name))

    def missing_hooks(self) -> tuple[str, ...]:
        """The hooks of the plugin's kind that it does not implement, optional ones left out."""
        kind = self.offer.kind
        return tuple(name for name in hook_names(kind) if not is_optional(kind, name) and not self.implements(name))


def load(offer: PluginOffer) -> LoadedPlugin:
    """Import the target and check its hooks. Raises PluginBroken with the first line of the cause."""
    target = _import(offer)
    manager = pluggy.PluginManager("ninfer")
    manager.add_hookspecs(SPECS_BY_KIND[offer.kind])
    try:
        manager.register(target, offer.name)
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise PluginBroken(f"{offer.label} breaks the hook contract: {describe(error)}") from error
    _check_arguments(offer, manager)
    _check_marks(offer, target, manager)
    return LoadedPlugin(offer=offer, hook=HookRelay(offer, manager))


def hook_names(kind: str) -> tuple[str, ...]:
    """The hooks that a plugin of `kind` may implement."""
    return tuple(name for name in dir(SPECS_BY_KIND[kind]) if name.startswith("ninfer_"))


@contextlib.contextmanager
def failures_of(label: str, place: str) -> Iterator[None]:
    """What a plugin that messages call `label` raises in here becomes PluginBroken, which names the `place`; a
    NinferError and a KeyboardInterrupt stay what they are."""
    try:
        yield
    except (NinferError, KeyboardInterrupt):
        raise
    # SystemExit and its like as well: a plugin does not end the process with an exit code of its own.
    except BaseException as error:
        raise PluginBroken(f"{label} failed in {place}: {describe(error)}") from error


def describe(error: BaseException) -> str:
    """An exception in one line: the first line of its text, or its type when it has none, or none that it can say."""
    try:
        lines = str(error).strip().splitlines()
    except Exception:
        lines = []
    text = lines[0] if lines else ""
    if isinstance(error, (ImportError, NinferError, pluggy.PluginValidationError)) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _import(offer: PluginOffer) -> object:
    module_name, _, attributes = offer.target.partition(":")
    try:
        # What a module has to say when it is imported is no part of what a command gives out.
        with contextlib.redirect_stdout(sys.stderr):
            target: object = importlib.import_module(module_name.strip())
        for attribute in filter(None, attributes.strip().split(".")):
            target = getattr(target, attribute)
    except KeyboardInterrupt:
        raise
    # SystemExit and its like as well: a module that ends the process at import must not end ours.
    except BaseException as error:
        raise PluginBroken(f"{offer.label} failed to import: {describe(error)}") from error
    return target


def _check_arguments(offer: PluginOffer, manager: pluggy.PluginManager) -> None:
    # pluggy lets an unknown argument with a default pass; it would never be given a value.
    for name in hook_names(offer.kind):
        known = set(inspect.signature(getattr(SPECS_BY_KIND[offer.kind], name)).parameters) - {"self"}
        for implementation in getattr(manager.hook, name).get_hookimpls():
            unknown = sorted({*implementation.argnames, *implementation.kwargnames} - known)
            if unknown:
                raise PluginBroken(f"{offer.label} breaks the hook contract: {name} has no argument {unknown[0]!r}")


def _check_marks(offer: PluginOffer, target: object, manager: pluggy.PluginManager) -> None:
    implemented = {name for name in hook_names(offer.kind) if getattr(manager.hook, name).get_hookimpls()}
    unmarked = [name for name in hook_names(offer.kind) if callable(getattr(target, name, None))]
    for name in unmarked:
        if name not in implemented:
            raise PluginBroken(f"{offer.label} defines {name} without @hookimpl")
    if not implemented:
        raise PluginBroken(f"{offer.label} implements no hook of its kind")
