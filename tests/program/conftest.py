from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from ninfer_core.api import ArtifactHeader, ExecutionPlan
from ninfer_core.plugins import PluginRegistry
from ninfer_core.program.build import build_program
from ninfer_core.program.runner import DeviceProgram
from ninfer_core.testing.tiny import tiny_artifact, tiny_plan
from tests.program.drafted import OUTPUT, ROOMY, WISHES, generate
from tests.scripted_backend import scripted

__all__ = ["scripted"]


@dataclass(frozen=True)
class Built:
    plan: ExecutionPlan
    program: DeviceProgram
    phases: list[str]


@pytest.fixture(scope="session")
def registry() -> PluginRegistry:
    return PluginRegistry.discover()


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def build(registry: PluginRegistry) -> Callable[..., Built]:
    """Builds the tiny model's program; keywords are ServeOptions, and `experts`."""

    def build(*, experts: bool = False, **options: Any) -> Built:
        artifact = tiny_artifact(experts=experts)
        header: ArtifactHeader = artifact.header
        plan = tiny_plan(registry, header, **{**ROOMY, **options})
        phases: list[str] = []
        with artifact.open_weights() as weights:
            program = build_program(
                plan, header, weights, registry, torch.device("cpu"), lambda name, seconds: phases.append(name)
            )
        return Built(plan, program, phases)

    return build


@pytest.fixture(scope="session")
def plain(build: Callable[..., Built]) -> DeviceProgram:
    """Without drafts."""
    return build().program


@pytest.fixture(scope="session")
def texts(plain: DeviceProgram) -> list[list[int]]:
    """What the wishes give without drafts, a round at a time."""
    return [generate(plain, *wish, OUTPUT) for wish in WISHES]
