"""Whether selected plugins can live together, by the words of their manifests. Imports none of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ninfer_core.api.errors import Problem
from ninfer_core.plugins.offer import PluginOffer
from ninfer_core.plugins.registry import OPTION_BY_KIND

CODE = "plan_conflict"


def capability_problems(selected: Sequence[PluginOffer], available: Sequence[PluginOffer] = ()) -> list[Problem]:
    """A problem for every word that a selected plugin `requires` and none provides, or that it `conflicts` with.

    A selected plugin provides the words of its manifest and one more, `<kind>.<name>`, so that a manifest can also
    name a plugin. `available` are the offers that a remedy may propose.
    """
    return [problem for offer in selected for problem in _problems(offer, selected, available)]


def capabilities(offer: PluginOffer) -> frozenset[str]:
    """Everything that a manifest elsewhere can require of this plugin, or conflict with."""
    declared = offer.manifest.provides if offer.manifest is not None else ()
    return frozenset((f"{offer.kind}.{offer.name}", *declared))


def _problems(
    offer: PluginOffer, selected: Sequence[PluginOffer], available: Sequence[PluginOffer]
) -> Iterator[Problem]:
    if offer.manifest is None:
        return
    for word in offer.manifest.requires:
        if not any(word in capabilities(other) for other in selected):
            yield Problem(
                code=CODE,
                message=f"{offer.label} needs {word}, which nothing selected provides",
                remedy=_provide(word, offer, available),
            )
    for word in offer.manifest.conflicts:
        for other in selected:
            if other is not offer and word in capabilities(other):
                yield Problem(
                    code=CODE,
                    message=f"{offer.label} cannot run with {word}, which {other.label} brings",
                    remedy=f"choose something else than {_chosen(other)} or than {_chosen(offer)}",
                )


def _provide(word: str, offer: PluginOffer, available: Sequence[PluginOffer]) -> str:
    providers = [_chosen(other) for other in available if word in capabilities(other)]
    if not providers:
        return f"choose something else than {_chosen(offer)}: no installed plugin provides {word}"
    return f"add {' or '.join(providers)}, or choose something else than {_chosen(offer)}"


def _chosen(offer: PluginOffer) -> str:
    return f"{OPTION_BY_KIND[offer.kind]} {offer.name}"
