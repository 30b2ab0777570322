"""All plugins of an environment: choose by name, load what was chosen."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint

from ninfer_core.api.errors import (
    PluginAmbiguous,
    PluginBroken,
    PluginIncompatible,
    PluginProvisional,
    PluginUnknown,
)
from ninfer_core.api.manifest import KINDS
from ninfer_core.plugins.discovery import VARIABLE, installed_entry_points, read_offers, split_by_trust
from ninfer_core.plugins.loading import LoadedPlugin, load
from ninfer_core.plugins.offer import PluginOffer, normalized_package, standing
from ninfer_core.plugins.promised import promise_of
from ninfer_core.plugins.suggest import suggestion

OPTION_BY_KIND: Mapping[str, str] = {
    "protocol": "--protocols",
    "family": "--family",
    "kv": "--kv-dtype",
    "spec": "--spec",
    "media": "--vision",
}
"""The option that selects a plugin of each kind."""


class PluginRegistry:
    """What the environment offered at one moment; it does not change. Plugins loaded through it are kept on it."""

    def __init__(self, offers: Iterable[PluginOffer], blocked: Iterable[PluginOffer] = ()) -> None:
        self._offers = tuple(offers)
        self._blocked = tuple(blocked)
        self._loaded: dict[PluginOffer, LoadedPlugin] = {}
        self._loading = threading.RLock()

    @classmethod
    def discover(
        cls, entry_points: Iterable[EntryPoint] | None = None, environment: Mapping[str, str] = os.environ
    ) -> PluginRegistry:
        """Read entry points (None: all installed ones) and manifests, importing no plugin.

        Raises PluginUnknown when `NINFER_PLUGINS` names a package that offers none.
        """
        found = installed_entry_points() if entry_points is None else entry_points
        allowed, blocked = split_by_trust(read_offers(found), environment)
        return cls(allowed, blocked)

    def offers(self, kind: str | None = None) -> tuple[PluginOffer, ...]:
        """Offers of one kind, or of all, ordered by kind, name and package; broken ones included."""
        return tuple(offer for offer in self._offers if kind is None or offer.kind == kind)

    def blocked(self, kind: str | None = None) -> tuple[PluginOffer, ...]:
        """Installed offers that `NINFER_PLUGINS` keeps out."""
        return tuple(offer for offer in self._blocked if kind is None or offer.kind == kind)

    def select(self, kind: str, selection: str, device_kind: str | None = None) -> PluginOffer:
        """The one offer that `selection` (`name` or `name@package`) means. Imports nothing.

        Raises PluginUnknown, PluginAmbiguous when several packages offer the name, PluginIncompatible for
        another API version, a module that is not installed, or a manifest that excludes `device_kind` (`cpu` or
        `cuda`; None does not ask), PluginBroken when the manifest is absent or wrong, PluginProvisional for a third
        party's plugin of a kind that is not open yet.
        """
        offer = self.find(kind, selection)
        _require_usable(offer, device_kind)
        return offer

    def find(self, kind: str, selection: str) -> PluginOffer:
        """As `select`, usable or not: raises PluginUnknown and PluginAmbiguous alone."""
        if kind not in KINDS:
            raise PluginUnknown(f"no kind of plugin '{kind}'{suggestion(kind, KINDS)}; kinds: {', '.join(KINDS)}")
        name, _, package = selection.partition("@")
        named = [offer for offer in self.offers(kind) if offer.name == name]
        matches = [offer for offer in named if not package or _same_package(offer, package)]
        if not matches:
            raise PluginUnknown(self._unknown_message(kind, name, package, named))
        if len(matches) > 1:
            raise PluginAmbiguous(_ambiguous_message(kind, name, matches))
        return matches[0]

    def load(self, offer: PluginOffer) -> LoadedPlugin:
        """Import the plugin, once for this registry. Raises PluginBroken."""
        with self._loading:
            if offer not in self._loaded:
                self._loaded[offer] = load(offer)
            return self._loaded[offer]

    def _unknown_message(self, kind: str, name: str, package: str, named: list[PluginOffer]) -> str:
        if package and named:
            packages = ", ".join(offer.reference for offer in named)
            return f"no package '{package}' offers the {kind} plugin '{name}'; there is {packages}"
        for offer in self.blocked(kind):
            if offer.name == name and (not package or _same_package(offer, package)):
                return f"{offer.label} is installed but {VARIABLE} does not allow it; add {offer.package} to {VARIABLE}"
        known = sorted({offer.name for offer in self.offers(kind)})
        listed = f"installed: {', '.join(known)}" if known else f"no {kind} plugin is installed"
        if promise_of(kind, name) is not None:
            return f"{kind} plugin '{name}' is not built yet; {listed}"
        return f"no {kind} plugin '{name}'{suggestion(name, known)}; {listed}"


def _same_package(offer: PluginOffer, package: str) -> bool:
    return normalized_package(offer.package) == normalized_package(package)


def _ambiguous_message(kind: str, name: str, matches: list[PluginOffer]) -> str:
    if len({normalized_package(offer.package) for offer in matches}) == 1:
        targets = ", ".join(offer.target for offer in matches)
        return f"{matches[0].package} offers the {kind} plugin '{name}' more than once ({targets}); it must be repaired"
    choices = ", ".join(f"{offer.reference} ({offer.version})" for offer in matches)
    example = f"{OPTION_BY_KIND[kind]} {matches[0].reference}"
    return f"{kind} '{name}' is offered by several packages: {choices}; choose one, such as {example}"


def _require_usable(offer: PluginOffer, device_kind: str | None) -> None:
    found = standing(offer, None if device_kind is None else frozenset({device_kind}))
    if found.state == "broken":
        raise PluginBroken(f"{offer.label} cannot be used: {found.reason}")
    if found.state == "provisional":
        raise PluginProvisional(f"{offer.label} cannot be used yet: {found.reason}")
    if found.state != "ready":
        raise PluginIncompatible(f"{offer.label} cannot be used: {found.reason}")
