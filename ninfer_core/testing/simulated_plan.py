"""A plan for the simulated program: capacities as they are asked for, and no bytes."""

from __future__ import annotations

from ninfer_core.api.artifact import ArtifactIdentity
from ninfer_core.api.frontend import ThinkingDefaults
from ninfer_core.api.geometry import AttentionGeometry, Geometry
from ninfer_core.api.kv import KVLayout, KVPlane
from ninfer_core.api.plan import Capacities, DeviceInfo, ExecutionPlan, Feature, Features, Ledger
from ninfer_core.api.request import SamplingOptions
from ninfer_core.testing.simulated_frontend import VOCABULARY_ROWS, SimulatedFrontend


def simulated_plan(
    *,
    draft_tokens: int = 0,
    max_context: int = 256,
    page_tokens: int = 64,
    kv_pages: int = 8,
    max_concurrency: int = 4,
    max_pending_requests: int = 16,
    prefill_chunk: int = 128,
) -> ExecutionPlan:
    frontend, off = SimulatedFrontend(), Feature(False)
    return ExecutionPlan(
        ninfer_version="0",
        api=1,
        pins=(),
        source="simulated",
        identity=ArtifactIdentity(model_id="simulated", weights_id="none", family="simulated", format_version=1),
        device=DeviceInfo(kind="cpu", index=None, name="simulated", memory_bytes=0, compute_capability=None),
        geometry=Geometry(
            hidden_size=1,
            layers=1,
            vocabulary_rows=VOCABULARY_ROWS,
            max_positions=max_context,
            attention=AttentionGeometry(layers=1, query_heads=1, kv_heads=1, head_dim=1),
            state=(),
            records=(),
        ),
        token_domain=frontend.token_domain,
        activation_dtype="float32",
        kv_layout=KVLayout(planes=(KVPlane(part="key", name="key", dtype="float32", elements=1),)),
        capacities=Capacities(
            max_context=max_context,
            page_tokens=page_tokens,
            kv_pages=kv_pages,
            state_slots=max_concurrency,
            max_concurrency=max_concurrency,
            max_pending_requests=max_pending_requests,
            pending_timeout_ms=30_000,
            prefill_chunk=prefill_chunk,
            draft_tokens=draft_tokens,
            default_max_tokens=128,
        ),
        template=frontend.capabilities,
        thinking=ThinkingDefaults(),
        presets=frontend.presets,
        sampling_overrides=SamplingOptions(),
        greedy=False,
        fingerprint="0" * 64,
        features=Features(cuda_graphs=off, prefix_reuse=off, speculation=off, vision=off, tool_calls=off),
        ledger=Ledger(lines=(), device_bytes=0),
    )
