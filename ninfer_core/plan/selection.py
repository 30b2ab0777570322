"""Which plugins a plan is made of: chosen by name from the options, the family by what it claims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ninfer_core.api.artifact import ArtifactHeader
from ninfer_core.api.errors import PlanRejected, PluginUnknown, Problem, StartupError
from ninfer_core.api.plan import DeviceInfo
from ninfer_core.plan.option_rules import not_built, option_problems
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plugins.capabilities import capability_problems
from ninfer_core.plugins.claims import claiming_families
from ninfer_core.plugins.loading import LoadedPlugin
from ninfer_core.plugins.offer import PluginOffer, standing
from ninfer_core.plugins.promised import promise_of
from ninfer_core.plugins.registry import OPTION_BY_KIND, PluginRegistry


@dataclass(frozen=True, slots=True)
class Selection:
    """What the options name, not imported. `family` is None when the artifact decides."""

    kv: PluginOffer
    family: PluginOffer | None
    protocols: tuple[PluginOffer, ...]
    spec: PluginOffer | None = None


class _Selector:
    """Selects one name after the other and keeps the problems for the end."""

    def __init__(self, options: ServeOptions, registry: PluginRegistry, device_kind: str) -> None:
        self._options = options
        self._registry = registry
        self._device_kind = device_kind
        self.problems: list[Problem] = []

    def select(self, kind: str, field: str, selection: str) -> PluginOffer | None:
        try:
            return self._registry.select(kind, selection, self._device_kind)
        except StartupError as error:
            self.problems.append(self._problem(error, kind, field, selection))
            return None

    def _problem(self, error: StartupError, kind: str, field: str, selection: str) -> Problem:
        name = selection.partition("@")[0]
        listing = f"`ninfer plugins list --kind {kind}` shows what there is"
        offered = any(offer.name == name for offer in self._registry.offers(kind))
        if isinstance(error, PluginUnknown) and promise_of(kind, name) is not None and not offered:
            return not_built(f"{kind} plugin '{name}' ({self._options.origin(field)})", listing)
        message = f"{self._options.origin(field)} {selection}: {error.message}"
        return Problem(code=error.code, message=message, remedy=listing)


def select_plugins(options: ServeOptions, registry: PluginRegistry, device: DeviceInfo) -> Selection:
    """What the options name. Raises PlanRejected with every name that cannot be had, and what the options, each within
    its range, say against each other."""
    selector = _Selector(options, registry, device.kind)
    kv = selector.select("kv", "kv_dtype", options.kv_dtype)
    family = None if options.family is None else selector.select("family", "family", options.family)
    protocols = _protocols(options, registry, device.kind, selector)
    spec = None if options.spec is None else selector.select("spec", "spec", options.spec)
    problems = [*option_problems(options), *selector.problems]
    if problems or kv is None:
        raise PlanRejected(problems)
    return Selection(kv=kv, family=family, protocols=protocols, spec=spec)


def _protocols(
    options: ServeOptions, registry: PluginRegistry, device_kind: str, selector: _Selector
) -> tuple[PluginOffer, ...]:
    if options.protocols is not None:
        names = options.protocols
    else:
        names = tuple(
            dict.fromkeys(offer.name for offer in registry.offers("protocol") if _is_ready(offer, device_kind))
        )
    if not names:
        selector.problems.append(
            Problem(
                code="plugin_unknown",
                message="no protocol plugin is installed that can run here, so nothing could be served",
                remedy="pip install ninfer-protocols; `ninfer plugins list --kind protocol` shows what there is",
            )
        )
    chosen = [selector.select("protocol", "protocols", name) for name in names]
    return tuple(offer for offer in chosen if offer is not None)


def _is_ready(offer: PluginOffer, device_kind: str) -> bool:
    return standing(offer, frozenset({device_kind})).state == "ready"


def claim_family(named: PluginOffer | None, registry: PluginRegistry, header: ArtifactHeader) -> LoadedPlugin:
    """The family of the artifact: the one that was named, else the only one that claims it.

    Raises PlanRejected when none does or several do, PluginBroken when the named one does not load.
    """
    if named is not None:
        return registry.load(named)
    found = claiming_families(registry, header)
    if len(found.claims) == 1:
        return found.claims[0]
    kind = f"family '{header.identity.family}'" if header.identity.family else _model_type(header)
    artifact = f"{header.source} ({kind}, model '{header.identity.model_id}')"
    if found.claims:
        claims = ", ".join(f"{plugin.offer.reference} {plugin.offer.version}" for plugin in found.claims)
        choice = f"{OPTION_BY_KIND['family']} {found.claims[0].offer.reference}"
        raise _rejected(
            "plugin_ambiguous", f"several families claim {artifact}: {claims}", f"choose one, such as {choice}"
        )
    installed = ", ".join(sorted({offer.name for offer in registry.offers("family")})) or "none"
    broken = "".join(f"; {failure.message}" for failure in found.failures)
    raise _rejected(
        "family_unknown",
        f"no model family claims {artifact}; installed: {installed}{broken}",
        "install the family's plugin, or name one with --family",
    )


def _model_type(header: ArtifactHeader) -> str:
    """What a Hugging Face directory says of its kind."""
    return f"model_type {str(header.config.get('model_type', 'absent'))[:60]!r} in config.json"


def require_capabilities(selected: Sequence[PluginOffer], registry: PluginRegistry) -> None:
    """Raises PlanRejected with everything that the manifests of the selected plugins say against each other."""
    problems = capability_problems(selected, registry.offers())
    if problems:
        raise PlanRejected(problems)


def _rejected(code: str, message: str, remedy: str) -> PlanRejected:
    return PlanRejected([Problem(code=code, message=message, remedy=remedy)])
