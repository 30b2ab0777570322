"""What `ninfer plugins list` says: a line for every offer and every promise, without importing a plugin."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ninfer_core.api.manifest import KINDS
from ninfer_core.plugins.offer import PluginOffer, standing
from ninfer_core.plugins.promised import PROMISES
from ninfer_core.plugins.registry import PluginRegistry

BLOCKED = "blocked"
NOT_BUILT = "not-built"


class PluginLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line. `state` is a word of `OfferState`, `blocked` (kept out by NINFER_PLUGINS) or `not-built` (promised,
    offered by nobody; `version` is None). `reason` says why the state is not `ready`, or what else to know."""

    kind: str
    name: str
    state: str
    package: str
    version: str | None
    summary: str
    reason: str

    @property
    def remark(self) -> str:
        """What a person is told: the reason where there is one, else the summary."""
        return self.reason or self.summary


def list_plugins(registry: PluginRegistry, kind: str | None, device_kinds: frozenset[str]) -> tuple[PluginLine, ...]:
    """Lines ordered by kind (as in KINDS) and name. `device_kinds` as in `standing`."""
    lines = [*_offered(registry, kind, device_kinds), *_blocked(registry, kind), *_promised(registry, kind)]
    return tuple(sorted(lines, key=lambda line: (KINDS.index(line.kind), line.name, line.package)))


def _offered(registry: PluginRegistry, kind: str | None, device_kinds: frozenset[str]) -> Iterator[PluginLine]:
    for offer in registry.offers(kind):
        found = standing(offer, device_kinds)
        rivals = [other for other in registry.offers(offer.kind) if other.name == offer.name and other is not offer]
        reason = found.reason
        if rivals and not reason:
            also = ", ".join(f"{other.package} {other.version}" for other in rivals)
            reason = f"also offered by {also}; select it as {offer.reference}"
        yield _line(offer, found.state, reason)


def _blocked(registry: PluginRegistry, kind: str | None) -> Iterator[PluginLine]:
    for offer in registry.blocked(kind):
        yield _line(offer, BLOCKED, "not allowed by NINFER_PLUGINS")


def _promised(registry: PluginRegistry, kind: str | None) -> Iterator[PluginLine]:
    offered = {(offer.kind, offer.name) for offer in registry.offers()}
    for promise in PROMISES:
        if kind in (None, promise.kind) and (promise.kind, promise.name) not in offered:
            yield PluginLine(
                kind=promise.kind,
                name=promise.name,
                state=NOT_BUILT,
                package=promise.package,
                version=None,
                summary=promise.summary,
                reason="",
            )


def _line(offer: PluginOffer, state: str, reason: str) -> PluginLine:
    return PluginLine(
        kind=offer.kind,
        name=offer.name,
        state=state,
        package=offer.package,
        version=offer.version,
        summary=offer.manifest.summary if offer.manifest is not None else "",
        reason=reason,
    )
