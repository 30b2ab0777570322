"""The way in for who has not imported torch yet: what torch reads while it is imported is settled first."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ninfer_core.api.artifact import ArtifactHeader, WeightSource
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.plugins.registry import PluginRegistry

if TYPE_CHECKING:
    from ninfer_core.program.build import OnPhase
    from ninfer_core.program.runner import DeviceProgram

ALLOCATOR_VARIABLE = "PYTORCH_ALLOC_CONF"
ALLOCATOR_SETTING = "expandable_segments:True"
"""Segments that shrink and grow keep what torch reserves within some 30 MiB of what a 27B model allocates; without,
every large tensor is rounded up to 2 MiB, which comes to 70 MiB (measured on an H200)."""


def start_program(
    plan: ExecutionPlan, header: ArtifactHeader, weights: WeightSource, registry: PluginRegistry, on_phase: OnPhase
) -> DeviceProgram:
    """`build_program` on the plan's device. A setting of the allocator that the user has made stands."""
    if plan.device.kind == "cuda":
        os.environ.setdefault(ALLOCATOR_VARIABLE, ALLOCATOR_SETTING)
    from ninfer_core.program.build import build_program, device_of

    return build_program(plan, header, weights, registry, device_of(plan), on_phase)
