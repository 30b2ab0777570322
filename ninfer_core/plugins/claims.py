"""Conflicts that only show when several plugins are asked: two families for one artifact, two protocols on a path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ninfer_core.api.artifact import ArtifactHeader
from ninfer_core.api.errors import PluginBroken
from ninfer_core.plugins.loading import LoadedPlugin
from ninfer_core.plugins.offer import standing
from ninfer_core.plugins.registry import PluginRegistry


@dataclass(frozen=True, slots=True)
class FamilyClaims:
    """`claims` are the families that say an artifact is theirs; `failures` are those that could not be asked.

    A failure matters only when there is no claim: then the artifact may belong to a family that is broken here.
    """

    claims: tuple[LoadedPlugin, ...]
    failures: tuple[PluginBroken, ...]


def claiming_families(registry: PluginRegistry, header: ArtifactHeader) -> FamilyClaims:
    """Ask every usable family plugin, in the order of offers; a broken one does not keep others from answering."""
    claims: list[LoadedPlugin] = []
    failures: list[PluginBroken] = []
    for offer in registry.offers("family"):
        if standing(offer, None).state != "ready":
            continue
        try:
            plugin = registry.load(offer)
            if plugin.hook.ninfer_family_match(header=header):
                claims.append(plugin)
        except PluginBroken as error:
            failures.append(error)
    return FamilyClaims(claims=tuple(claims), failures=tuple(failures))


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
