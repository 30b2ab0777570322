"""Entry-point metadata -> offers. Nothing of a plugin is imported; `NINFER_PLUGINS` says which packages count."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Mapping
from importlib.metadata import Distribution, EntryPoint

from ninfer_core.api.errors import PluginUnknown
from ninfer_core.api.manifest import KINDS
from ninfer_core.plugins.manifests import ManifestFile, manifest_of, read_manifest_file
from ninfer_core.plugins.offer import FIRST_PARTY_PACKAGES, PluginOffer, normalized_package
from ninfer_core.plugins.suggest import suggestion

VARIABLE = "NINFER_PLUGINS"
_GROUPS = {f"ninfer.{kind}": kind for kind in KINDS}

# What the standard library lets through of metadata that is absent, malformed or no UTF-8, differs with its version.
_UNREADABLE = (OSError, AttributeError, KeyError, TypeError, ValueError)


def installed_entry_points() -> list[EntryPoint]:
    """The entry points of all five groups in this environment. A distribution whose list cannot be read offers
    nothing, and takes nothing away from the others."""
    try:
        found = importlib.metadata.entry_points()
    except _UNREADABLE:
        readable = _readable_entry_points()
        return [entry for group in _GROUPS for entry in readable if entry.group == group]
    return [entry for group in _GROUPS for entry in found.select(group=group)]


def read_offers(entry_points: Iterable[EntryPoint]) -> tuple[PluginOffer, ...]:
    """One offer for each entry point of our groups, ordered by kind, name and package."""
    files: dict[str, ManifestFile] = {}
    offers = [_offer(entry, _GROUPS[entry.group], files) for entry in entry_points if entry.group in _GROUPS]
    return tuple(sorted(offers, key=lambda offer: (KINDS.index(offer.kind), offer.name, offer.package)))


def split_by_trust(
    offers: Iterable[PluginOffer], environment: Mapping[str, str]
) -> tuple[tuple[PluginOffer, ...], tuple[PluginOffer, ...]]:
    """(allowed, blocked) by `NINFER_PLUGINS`: unset allows every installed package, `off` the first-party ones,
    a comma list those and the packages it names.

    Raises PluginUnknown for a package in the list that offers no plugin: it is a typo or was never installed.
    """
    offers = tuple(offers)
    allowed = _allowed_packages(environment.get(VARIABLE), offers)
    if allowed is None:
        return offers, ()
    trusted = tuple(offer for offer in offers if offer.first_party or normalized_package(offer.package) in allowed)
    return trusted, tuple(offer for offer in offers if offer not in trusted)


def _readable_entry_points() -> list[EntryPoint]:
    """Distribution by distribution, which takes longer. The first of a name on the path hides later ones."""
    found: list[EntryPoint] = []
    names: set[str] = set()
    for distribution in importlib.metadata.distributions():
        name = _metadata(distribution, "Name")
        if name is None or normalized_package(name) in names:
            continue
        names.add(normalized_package(name))
        try:
            found += distribution.entry_points
        except _UNREADABLE:
            continue
    return found


def _offer(entry: EntryPoint, kind: str, files: dict[str, ManifestFile]) -> PluginOffer:
    try:
        top_level = entry.module.partition(".")[0]
    except _UNREADABLE:
        top_level = ""
    if not top_level:
        files[top_level] = ManifestFile(tables={}, problem=f"its entry point is {entry.value!r}, which names no module")
    if top_level not in files:
        files[top_level] = read_manifest_file(top_level)
    manifest, problem = manifest_of(files[top_level], kind, entry.name)
    package = _metadata(entry.dist, "Name") or top_level or "unknown"
    return PluginOffer(
        kind=kind,
        name=entry.name,
        package=package,
        version=_metadata(entry.dist, "Version") or "unknown",
        target=entry.value,
        manifest=manifest,
        manifest_problem=problem,
        first_party=normalized_package(package) in FIRST_PARTY_PACKAGES,
    )


def _metadata(distribution: Distribution | None, field: str) -> str | None:
    """None where it is not there: what is left of a package that was removed by half may have entry points."""
    try:
        if distribution is None or field not in distribution.metadata:
            return None
        return distribution.metadata[field]
    except _UNREADABLE:
        return None


def _allowed_packages(setting: str | None, offers: tuple[PluginOffer, ...]) -> frozenset[str] | None:
    if setting is None or not setting.strip():
        return None
    if setting.strip().lower() == "off":
        return frozenset()
    named = {normalized_package(word.strip()): word.strip() for word in setting.split(",") if word.strip()}
    known = {normalized_package(offer.package) for offer in offers}
    for package, spelling in named.items():
        if package not in known:
            hint = suggestion(package, known)
            listed = ", ".join(sorted(known)) or "none"
            problem = f"{VARIABLE} names the package '{spelling}', which offers no plugin here{hint}"
            raise PluginUnknown(f"{problem}; packages that do: {listed}")
    return frozenset(named)
