"""What only shows when several plugins are asked: whose an artifact is, whose the drafter in it, which protocols mount
one path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ninfer_core.api.artifact import ArtifactHeader, TensorSpec
from ninfer_core.api.errors import NinferError, PluginBroken, PluginIncompatible
from ninfer_core.api.geometry import Geometry
from ninfer_core.plugins.loading import LoadedPlugin
from ninfer_core.plugins.offer import PluginOffer, standing
from ninfer_core.plugins.registry import PluginRegistry


@dataclass(frozen=True, slots=True)
class FamilyClaims:
    """`claims` are the families that say an artifact is theirs; `failures` are those that could not be asked.

    A failure matters only when there is no claim: then the artifact may belong to a family that is broken here.
    """

    claims: tuple[LoadedPlugin, ...]
    failures: tuple[PluginBroken, ...]


def claiming_families(registry: PluginRegistry, header: ArtifactHeader) -> FamilyClaims:
    """Ask the usable family plugins, in the order of offers; one that fails does not keep others from answering.

    A container names its family: plugins of that name are asked first, and when one claims it no other is imported.
    """
    usable = [offer for offer in registry.offers("family") if standing(offer, None).state == "ready"]
    named = [offer for offer in usable if offer.name == header.identity.family]
    claims: list[LoadedPlugin] = []
    failures: list[PluginBroken] = []
    for offers in (named, [offer for offer in usable if offer not in named]):
        if not claims:
            _ask(offers, registry, header, claims, failures)
    return FamilyClaims(claims=tuple(claims), failures=tuple(failures))


def _ask(
    offers: Sequence[PluginOffer],
    registry: PluginRegistry,
    header: ArtifactHeader,
    claims: list[LoadedPlugin],
    failures: list[PluginBroken],
) -> None:
    for offer in offers:
        try:
            plugin = registry.load(offer)
            if plugin.hook.ninfer_family_match(header=header):
                claims.append(plugin)
        except PluginBroken as error:
            failures.append(error)
        except NinferError as error:
            # Whatever it says of the artifact, it is one family's opinion of what may be another's.
            failures.append(PluginBroken(f"{offer.label} failed in ninfer_family_match: {error.message}"))


@dataclass(frozen=True, slots=True)
class DrafterClaim:
    """A backend that drafts with the checkpoint in an artifact, and that checkpoint's tensors."""

    plugin: LoadedPlugin
    inventory: tuple[TensorSpec, ...]


@dataclass(frozen=True, slots=True)
class DrafterClaims:
    """`refusals` are what backends say that know the checkpoint and cannot draft with it, `failures` are of those that
    could not be asked; `asked` names all that read draft checkpoints. Several claims are nothing wrong: `--spec` names
    the one that drafts."""

    claims: tuple[DrafterClaim, ...]
    refusals: tuple[str, ...]
    failures: tuple[PluginBroken, ...]
    asked: tuple[str, ...]


def claiming_drafters(registry: PluginRegistry, header: ArtifactHeader, geometry: Geometry) -> DrafterClaims:
    """Ask the usable backends of speculation whose the draft checkpoint in `header` is, in the order of offers."""
    claims: list[DrafterClaim] = []
    refusals: list[str] = []
    failures: list[PluginBroken] = []
    asked: list[str] = []
    for offer in registry.offers("spec"):
        if standing(offer, None).state != "ready":
            continue
        try:
            plugin = registry.load(offer)
            if not plugin.implements("ninfer_spec_inventory"):
                continue
            asked.append(offer.reference)
            inventory = plugin.hook.ninfer_spec_inventory(header=header, geometry=geometry)
            if inventory is not None:
                claims.append(DrafterClaim(plugin, tuple(inventory)))
        except PluginIncompatible as refusal:
            refusals.append(f"{offer.name}: {refusal.message}")
        except PluginBroken as error:
            failures.append(error)
        except NinferError as error:
            failures.append(PluginBroken(f"{offer.label} failed in ninfer_spec_inventory: {error.message}"))
    return DrafterClaims(tuple(claims), tuple(refusals), tuple(failures), tuple(asked))


def overlapping_paths(paths_by_protocol: Mapping[str, Sequence[str]]) -> tuple[tuple[str, str, str], ...]:
    """(path, protocol, other protocol) for every route path that two protocols mount.

    Paths are compared without a trailing slash and with parameters blanked: `/v1/x/{id:str}` and `/v1/x/{name}`
    are one path to a router.
    """
    owner: dict[str, str] = {}
    clashes = []
    for protocol, paths in paths_by_protocol.items():
        for path in sorted(set(paths)):
            first = owner.setdefault(_route_form(path), protocol)
            if first != protocol:
                clashes.append((path, first, protocol))
    return tuple(clashes)


def _route_form(path: str) -> str:
    segments = path.strip("/").split("/")
    return "/" + "/".join("{}" if segment.startswith("{") else segment for segment in segments)
