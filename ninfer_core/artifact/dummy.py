"""`dummy:NAME`: an artifact of real shapes whose weights are random numbers made on the device they are for.

The family plugins supply the headers (`ninfer_family_dummies`); `values.py` has the laws of the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from ninfer_core.api.artifact import DRAFT_CONFIG, ArtifactHeader, TensorSpec
from ninfer_core.api.errors import ArtifactInvalid, NinferError
from ninfer_core.api.geometry import Geometry
from ninfer_core.artifact.drafter import REPORTED_ACTIVATIONS
from ninfer_core.artifact.handle import ArtifactHandle
from ninfer_core.artifact.values import fill
from ninfer_core.artifact.weights import OpenWeights
from ninfer_core.artifact.wording import quoted
from ninfer_core.plugins import PluginRegistry, claiming_drafters
from ninfer_core.plugins.offer import standing
from ninfer_core.plugins.suggest import suggestion

if TYPE_CHECKING:
    import torch

PREFIX = "dummy:"
DUMMY_SEED = 0


def open_dummy(name: str, registry: PluginRegistry) -> ArtifactHandle:
    """Raises ArtifactInvalid when no usable family offers that name, or several do."""
    source = PREFIX + name
    offered, failures = dummies(registry)
    headers = offered.get(name, {})
    if not headers:
        known = ", ".join(PREFIX + other for other in sorted(offered)) or "none"
        message = f"no family offers it{suggestion(name, offered)}; there is: {known}"
        raise ArtifactInvalid(source, [message, *failures])
    if len(headers) > 1:
        raise ArtifactInvalid(source, [f"several families offer it: {', '.join(sorted(headers))}"])
    ((family, header),) = headers.items()
    header = _with_draft_tensors(msgspec.structs.replace(header, source=source), family, registry)
    return ArtifactHandle(header=header, notes=header.notes, store=DummyStore(header))


def _with_draft_tensors(header: ArtifactHeader, family: str, registry: PluginRegistry) -> ArtifactHeader:
    """The family says which drafter was published for the model, by its config; the tensors are known to the backend
    that drafts with it. None are added where none is installed."""
    if DRAFT_CONFIG not in header.resources:
        return header
    hook = registry.load(registry.select("family", family)).hook
    geometry: Geometry = hook.ninfer_family_geometry(header=header, activation_dtype=REPORTED_ACTIVATIONS)
    claims = claiming_drafters(registry, header, geometry).claims
    return msgspec.structs.replace(header, tensors=(*header.tensors, *(claims[0].inventory if claims else ())))


def dummies(registry: PluginRegistry) -> tuple[dict[str, dict[str, ArtifactHeader]], list[str]]:
    """Headers by dummy name and family, and a line for each family plugin that could not be asked."""
    offered: dict[str, dict[str, ArtifactHeader]] = {}
    failures = []
    for offer in registry.offers("family"):
        if standing(offer, None).state != "ready":
            failures.append(f"{offer.label} was not asked: {standing(offer, None).reason}")
            continue
        try:
            plugin = registry.load(offer)
            headers = plugin.hook.ninfer_family_dummies() or {}
        except NinferError as broken:
            failures.append(broken.message)
            continue
        for name, header in headers.items():
            offered.setdefault(name, {})[offer.reference] = header
    return offered, failures


@dataclass(frozen=True, slots=True)
class DummyStore:
    """Weights that are made when they are read."""

    header: ArtifactHeader

    def open_weights(self) -> OpenWeights:
        return DummyWeights(self.header, DUMMY_SEED)

    def chunks(self, name: str) -> Iterator[bytes]:
        raise ArtifactInvalid(
            self.header.source, [f"{quoted(name)} has no stored bytes: dummy weights are made on use"]
        )


class DummyWeights:
    """Random weights. The same (seed, name, kind of device) gives the same numbers, in any order of reading."""

    def __init__(self, header: ArtifactHeader, seed: int) -> None:
        self._source = header.source
        self._specs: dict[str, TensorSpec] = {spec.name: spec for spec in header.tensors}
        self._seed = seed

    def expect(self, names: Iterable[str]) -> None:
        """Nothing is gained by knowing."""

    def read(self, name: str, device: torch.device) -> torch.Tensor:
        """A new tensor, made on `device`. Raises ArtifactInvalid for a name the header does not have."""
        import torch

        spec = self._spec(name)
        made = torch.empty(spec.shape, dtype=getattr(torch, spec.dtype), device=device)
        fill(made, spec, self._seed)
        return made

    def read_into(self, name: str, out: torch.Tensor, start: int = 0) -> None:
        """See the Protocol. Raises as `read` does."""
        fill(out, self._spec(name), self._seed, start)

    def _spec(self, name: str) -> TensorSpec:
        spec = self._specs.get(name)
        if spec is None:
            raise ArtifactInvalid(self._source, [f"it has no tensor {quoted(name)}{suggestion(name, self._specs)}"])
        return spec

    def close(self) -> None:
        """Nothing is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
