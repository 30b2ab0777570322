"""One plugin as its package's metadata describes it, before any of its code has run."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from ninfer_core.api.manifest import PROVISIONAL_KINDS, Manifest
from ninfer_core.api.version import API_VERSION

FIRST_PARTY_PACKAGES = frozenset(
    {"ninfer", "ninfer-protocols", "ninfer-models", "ninfer-kvformats", "ninfer-speculative", "ninfer-media"}
)
"""Distributions released together with the core, in the normal form of `normalized_package`."""

OfferState = Literal["ready", "broken", "provisional", "incompatible", "missing", "no-device"]


class PluginOffer(msgspec.Struct, frozen=True, kw_only=True):
    """What one entry point offers. `target` is its value, a module or `module:object`.

    Exactly one of `manifest` and `manifest_problem` is set; a problem makes the plugin unusable, since the API
    version it was written for is then unknown.
    """

    kind: str
    name: str
    package: str
    version: str
    target: str
    manifest: Manifest | None
    manifest_problem: str | None
    first_party: bool

    @property
    def reference(self) -> str:
        """The spelling that selects this offer whatever else is installed."""
        return f"{self.name}@{self.package}"

    @property
    def label(self) -> str:
        """How messages call it."""
        return f"{self.kind} plugin '{self.name}' from {self.package} {self.version}"


class OfferStanding(msgspec.Struct, frozen=True, kw_only=True):
    """What can be said of an offer without importing it. `reason` is empty exactly when `state` is `ready`."""

    state: OfferState
    reason: str


def standing(offer: PluginOffer, device_kinds: frozenset[str] | None) -> OfferStanding:
    """`device_kinds` are those that may be used, of `cpu` and `cuda`; None leaves the device out of account."""
    manifest = offer.manifest
    if manifest is None:
        return OfferStanding(state="broken", reason=offer.manifest_problem or "no manifest")
    if offer.kind in PROVISIONAL_KINDS and not offer.first_party:
        opening = PROVISIONAL_KINDS[offer.kind]
        reason = f"the hooks of kind {offer.kind} are provisional; it opens to others with {opening}, not built yet"
        return OfferStanding(state="provisional", reason=reason)
    if manifest.api != API_VERSION:
        reason = f"asks for plugin API {manifest.api}; this ninfer has plugin API {API_VERSION}"
        return OfferStanding(state="incompatible", reason=reason)
    absent = [module for module in manifest.modules if not module_exists(module)]
    if absent:
        return OfferStanding(state="missing", reason=f"needs {', '.join(absent)}, not installed here")
    if device_kinds is not None and manifest.devices and device_kinds.isdisjoint(manifest.devices):
        reason = f"needs {' or '.join(manifest.devices)}; here is {' and '.join(sorted(device_kinds))}"
        return OfferStanding(state="no-device", reason=reason)
    return OfferStanding(state="ready", reason="")


def normalized_package(name: str) -> str:
    """A distribution name as package indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def module_exists(name: str) -> bool:
    """Whether an import of `name` would find it. Imports nothing, parents of a dotted name included."""
    top, *rest = name.split(".")
    locations = package_locations(top)
    if not rest or locations is None:
        return locations is not None
    path: Sequence[str] = locations
    for depth in range(1, len(rest) + 1):
        found = importlib.machinery.PathFinder.find_spec(".".join((top, *rest[:depth])), path)
        if found is None:
            return False
        path = list(found.submodule_search_locations or ())
    return True


def package_locations(top_level: str) -> list[str] | None:
    """The folders of a top-level package; empty for a plain module, None when there is no such module."""
    try:
        spec = importlib.util.find_spec(top_level)
    except ValueError:
        return None
    if spec is None:
        return None
    return list(spec.submodule_search_locations or ())
