from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from ninfer_core.api import ArtifactHeader, ExecutionPlan
from ninfer_core.plugins import PluginRegistry
from ninfer_core.program.build import build_program
from ninfer_core.program.runner import DeviceProgram
from ninfer_core.testing.scripted_drafters import scripted_registry
from ninfer_core.testing.tiny import tiny_artifact, tiny_plan

ROOMY = {"max_context": 512, "max_concurrency": 8, "kv_capacity": 8 * 512}
"""Eight rows that can all be as long as the context."""


@dataclass(frozen=True)
class Built:
    plan: ExecutionPlan
    program: DeviceProgram
    phases: list[str]


@pytest.fixture(scope="session")
def registry() -> PluginRegistry:
    return PluginRegistry.discover()


@pytest.fixture(scope="session")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PluginRegistry]:
    """With the backend of drafters that tests make."""
    folder = tmp_path_factory.mktemp("scripted")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield scripted_registry(folder)


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
