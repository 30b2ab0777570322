"""A program that is built to be measured."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from ninfer_core.api.artifact import ArtifactHeader
from ninfer_core.api.kv import KVCodec
from ninfer_core.api.model import Model
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.bench.context import RandomContext
from ninfer_core.bench.floor import Floor, experts_of
from ninfer_core.bench.synthetic import SyntheticAcceptor
from ninfer_core.bench.tap import LogitsTap
from ninfer_core.ops import accept
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.pins import resolve_pinned
from ninfer_core.plan.prepare import Prepared, prepare
from ninfer_core.plugins.registry import PluginRegistry
from ninfer_core.program.build import build_program, device_of
from ninfer_core.program.runner import DeviceProgram


@dataclass(frozen=True, slots=True)
class Subject:
    """`context` fills rows with keys and values that no prompt has left."""

    plan: ExecutionPlan
    header: ArtifactHeader
    program: DeviceProgram
    tap: LogitsTap
    context: RandomContext
    device: torch.device
    start_seconds: dict[str, float]
    synthetic: SyntheticAcceptor | None = None

    @contextmanager
    def accepting(self, probability: float | None) -> Iterator[None]:
        """Rounds within the block keep each draft with that probability; None: as the model says."""
        if probability is None:
            yield
            return
        assert self.synthetic is not None, "there are drafts"
        self.synthetic.keep(probability)
        try:
            yield
        finally:
            self.synthetic.keep(None)


@contextmanager
def started(options: ServeOptions, registry: PluginRegistry) -> Iterator[Subject]:
    """Plan, build and start; free the device in the end. Raises StartupErrors."""
    prepared = prepare(options, registry)
    plan = prepared.plan
    device = device_of(plan)
    seconds: dict[str, float] = {}
    taps: list[LogitsTap] = []

    def tapped(model: Model) -> Model:
        taps.append(LogitsTap(model))
        return taps[0]

    synthetic = None
    if plan.drafter is not None:
        synthetic = SyntheticAcceptor(accept.select(device, plan.kernels), device)
    with prepared.artifact.open_weights() as weights:
        program = build_program(
            plan,
            prepared.artifact.header,
            weights,
            registry,
            device,
            seconds.__setitem__,
            wrap_model=tapped,
            acceptor=synthetic,
        )
    try:
        (kv,) = resolve_pinned(plan, registry, ("kv",))["kv"]
        codec: KVCodec = kv.hook.ninfer_kv_codec(layout=plan.kv_layout)
        context = RandomContext(codec, plan.geometry)
        yield Subject(plan, prepared.artifact.header, program, taps[0], context, device, seconds, synthetic)
    finally:
        program.close()
        del program
        taps.clear()
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()


def floor_of(prepared: Prepared, registry: PluginRegistry) -> Floor:
    """The least that units of the plan's model take."""
    plan, header = prepared.plan, prepared.artifact.header
    (family,) = resolve_pinned(plan, registry, ("family",))["family"]
    resident = family.hook.ninfer_family_resident(
        header=header, activation_dtype=plan.activation_dtype, groups=("text",)
    )
    return Floor(plan, resident, experts_of(header.config))
