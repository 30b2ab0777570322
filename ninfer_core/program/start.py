"""The way in for who has not imported torch yet: what torch reads while it is imported is settled first."""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from ninfer_core.api.artifact import ArtifactHeader, WeightSource
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.plugins.registry import PluginRegistry

if TYPE_CHECKING:
    from ninfer_core.program.contract import OnPhase
    from ninfer_core.program.runner import DeviceProgram

SETTINGS: Mapping[str, tuple[tuple[str, str], ...]] = MappingProxyType(
    {
        # Segments that shrink and grow keep what torch reserves within some 30 MiB of what a 27B model allocates;
        # without, every large tensor is rounded up to 2 MiB, which comes to 70 MiB (measured on an H200).
        # Plans number devices as the driver's management library does, which is by bus; CUDA by itself puts the
        # fastest first.
        "cuda": (("PYTORCH_ALLOC_CONF", "expandable_segments:True"), ("CUDA_DEVICE_ORDER", "PCI_BUS_ID")),
        # Threads that spin while they wait for each other take the cores from whoever they wait for: with other work
        # on the machine, a round of small matrices took forty times as long (measured on two cores).
        "cpu": (("OMP_WAIT_POLICY", "passive"),),
    }
)
"""Environment variables and values by kind of device."""


def settle_environment(device_kind: str, environment: MutableMapping[str, str] = os.environ) -> None:
    """Set what torch should read; what the user has set stands. Without effect once torch has been imported."""
    for variable, value in SETTINGS[device_kind]:
        environment.setdefault(variable, value)


def start_program(
    plan: ExecutionPlan, header: ArtifactHeader, weights: WeightSource, registry: PluginRegistry, on_phase: OnPhase
) -> DeviceProgram:
    """`build_program` on the plan's device."""
    settle_environment(plan.device.kind)
    from ninfer_core.program.build import build_program, device_of

    return build_program(plan, header, weights, registry, device_of(plan), on_phase)
