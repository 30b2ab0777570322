"""The frozen execution plan: all that the engine process receives, and what every figure is filed under."""

from __future__ import annotations

import hashlib

import msgspec

from ninfer_core.api.artifact import ArtifactIdentity
from ninfer_core.api.frontend import SamplingPresets, TemplateCapabilities, ThinkingDefaults
from ninfer_core.api.geometry import Geometry, Kernels
from ninfer_core.api.kv import KVLayout
from ninfer_core.api.protocol import Compat
from ninfer_core.api.request import SamplingOptions
from ninfer_core.api.speculative import DrafterNeeds


class PluginPin(msgspec.Struct, frozen=True, kw_only=True):
    """Exactly which plugin a name was resolved to."""

    kind: str
    name: str
    package: str
    version: str


class DeviceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The device a plan is for. `index` is None for the CPU. `memory_bytes` is what the device has in all,
    never what happens to be free."""

    kind: str
    index: int | None
    name: str
    memory_bytes: int
    compute_capability: str | None


class LedgerLine(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes reserved at start for one purpose. `formula` spells out the arithmetic."""

    name: str
    bytes: int
    formula: str


HEADROOM = "headroom"
"""The ledger line of what is left."""


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """`device_bytes` are the device's, and the sum of all lines."""

    lines: tuple[LedgerLine, ...]
    device_bytes: int

    @property
    def planned_bytes(self) -> int:
        """What the plan takes of the device: every line but the headroom, which is what it leaves."""
        return sum(line.bytes for line in self.lines if line.name != HEADROOM)

    def line(self, name: str) -> LedgerLine:
        """The line of that name; KeyError when there is none."""
        for line in self.lines:
            if line.name == name:
                return line
        raise KeyError(name)


class Capacities(msgspec.Struct, frozen=True, kw_only=True):
    """Every bound the engine works under."""

    max_context: int
    page_tokens: int
    kv_pages: int
    state_slots: int
    max_concurrency: int
    max_pending_requests: int
    pending_timeout_ms: int
    prefill_chunk: int
    draft_tokens: int
    default_max_tokens: int


class PlannedDrafter(msgspec.Struct, frozen=True, kw_only=True):
    """What the plan's backend of speculation was found to need. `groups` are all groups of tensors that are loaded."""

    groups: tuple[str, ...]
    needs: DrafterNeeds


class Feature(msgspec.Struct, frozen=True):
    """Whether something is on, and a remark for a person on why; `not built yet` is said where it is true."""

    on: bool
    remark: str = ""

    @property
    def words(self) -> str:
        state = "on" if self.on else "off"
        return f"{state} ({self.remark})" if self.remark else state


class Features(msgspec.Struct, frozen=True, kw_only=True):
    """What is on and what is off."""

    cuda_graphs: Feature
    prefix_reuse: Feature
    speculation: Feature
    vision: Feature
    tool_calls: Feature

    def items(self) -> tuple[tuple[str, Feature], ...]:
        """(field, feature) in the order of the fields."""
        return tuple((name, getattr(self, name)) for name in self.__struct_fields__)


UNDECIDING = frozenset({"source", "identity"})
"""Fields of a plan that decide neither a token nor a byte; `fingerprint` and `pins` stand for the artifact."""


class ExecutionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What will run: every name resolved, every size computed, nothing derived later.

    Server settings that change no token and no byte on the device (address, key, logs) are not part of the plan.
    `fingerprint` is that of the artifact (`ninfer_core.artifact.fingerprint`), by which the engine knows it again.
    `compat` is sorted, each name once. `token_domain` is the frontend's. `drafter` is None where nothing speculates.
    """

    ninfer_version: str
    api: int
    pins: tuple[PluginPin, ...]
    source: str
    identity: ArtifactIdentity
    fingerprint: str
    device: DeviceInfo
    geometry: Geometry
    token_domain: int
    activation_dtype: str
    kv_layout: KVLayout
    capacities: Capacities
    template: TemplateCapabilities
    thinking: ThinkingDefaults
    presets: SamplingPresets
    sampling_overrides: SamplingOptions
    greedy: bool
    features: Features
    ledger: Ledger
    kernels: Kernels = "auto"
    compat: tuple[Compat, ...] = ()
    tolerant_tool_calls: bool = False
    drafter: PlannedDrafter | None = None

    def pin(self, kind: str) -> PluginPin:
        """The pin of a kind that has exactly one plugin in a plan (`family`, `kv`)."""
        (pin,) = [pin for pin in self.pins if pin.kind == kind]
        return pin

    @property
    def digest(self) -> str:
        """First 12 hex digits of the SHA-256 of what decides tokens and bytes, as deterministic JSON: two runs with
        one digest generate the same and take the same."""
        return hashlib.sha256(msgspec.json.encode(self._decisive(), order="deterministic")).hexdigest()[:12]

    def _decisive(self) -> dict[str, object]:
        """The plan without where the artifact lies, what it is called and which of several equal devices it runs on;
        without the device's size, which has decided pages and capacities already; without who waits how long, and
        without prose. Every field is here or in UNDECIDING."""
        device, capacities, template = self.device, self.capacities, self.template
        return {
            "ninfer_version": self.ninfer_version,
            "api": self.api,
            "pins": self.pins,
            "fingerprint": self.fingerprint,
            "device": (device.kind, device.name, device.compute_capability),
            "geometry": self.geometry,
            "token_domain": self.token_domain,
            "activation_dtype": self.activation_dtype,
            "kernels": self.kernels,
            "kv_layout": self.kv_layout,
            "capacities": msgspec.structs.replace(capacities, max_pending_requests=0, pending_timeout_ms=0),
            "template": msgspec.structs.replace(template, renderer_reason=""),
            "thinking": self.thinking,
            "presets": self.presets,
            "sampling_overrides": self.sampling_overrides,
            "greedy": self.greedy,
            "features": {name: feature.on for name, feature in self.features.items()},
            "ledger": {line.name: line.bytes for line in self.ledger.lines if line.name != HEADROOM},
            "compat": self.compat,
            "tolerant_tool_calls": self.tolerant_tool_calls,
            "drafter": self.drafter,
        }
