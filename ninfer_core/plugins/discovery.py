"""Entry-point metadata -> offers. Nothing of a plugin is imported; `NINFER_PLUGINS` says which packages count."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Mapping
from importlib.metadata import EntryPoint

from ninfer_core.api.errors import PluginUnknown
from ninfer_core.api.manifest import KINDS
from ninfer_core.plugins.manifests import ManifestFile, manifest_of, read_manifest_file
from ninfer_core.plugins.offer import FIRST_PARTY_PACKAGES, PluginOffer, normalized_package
from ninfer_core.plugins.suggest import suggestion

VARIABLE = "NINFER_PLUGINS"
_GROUPS = {f"ninfer.{kind}": kind for kind in KINDS}


def installed_entry_points() -> list[EntryPoint]:
    """The entry points of all five groups in this environment."""
    found = importlib.metadata.entry_points()
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


def _offer(entry: EntryPoint, kind: str, files: dict[str, ManifestFile]) -> PluginOffer:
    top_level = entry.module.partition(".")[0]
    if top_level not in files:
        files[top_level] = read_manifest_file(top_level)
    manifest, problem = manifest_of(files[top_level], kind, entry.name)
    package = entry.dist.name if entry.dist is not None else top_level
    return PluginOffer(
        kind=kind,
        name=entry.name,
        package=package,
        version=entry.dist.version if entry.dist is not None else "unknown",
        target=entry.value,
        manifest=manifest,
        manifest_problem=problem,
        first_party=normalized_package(package) in FIRST_PARTY_PACKAGES,
    )


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
