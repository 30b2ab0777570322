"""The frozen execution plan: all that the engine process receives, and what every figure is filed under."""

from __future__ import annotations

import hashlib

import msgspec

from ninfer_core.api.artifact import ArtifactIdentity
from ninfer_core.api.frontend import SamplingPresets, TemplateCapabilities, ThinkingDefaults
from ninfer_core.api.geometry import Geometry
from ninfer_core.api.kv import KVLayout
from ninfer_core.api.protocol import Compat
from ninfer_core.api.request import SamplingOptions


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


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    lines: tuple[LedgerLine, ...]
    device_bytes: int

    @property
    def total_bytes(self) -> int:
        return sum(line.bytes for line in self.lines)

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


class Features(msgspec.Struct, frozen=True, kw_only=True):
    """What is on and what is off, in words a person reads; `off (not built yet)` is said where it is true."""

    cuda_graphs: str
    prefix_reuse: str
    speculation: str
    vision: str
    tool_calls: str


class ExecutionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What will run: every name resolved, every size computed, nothing derived later.

    `digest` identifies the configuration; two runs with one digest are the same. Server settings that change no
    token and no byte on the device (address, key, logs) are not part of the plan. `compat` is sorted, each name once.
    `token_domain` is the frontend's.
    """

    ninfer_version: str
    api: int
    pins: tuple[PluginPin, ...]
    source: str
    identity: ArtifactIdentity
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
    compat: tuple[Compat, ...] = ()
    tolerant_tool_calls: bool = False

    def pin(self, kind: str) -> PluginPin:
        """The pin of a kind that has exactly one plugin in a plan (`family`, `kv`)."""
        (pin,) = [pin for pin in self.pins if pin.kind == kind]
        return pin

    @property
    def digest(self) -> str:
        """First 12 hex digits of the SHA-256 of the plan's deterministic JSON."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()[:12]
