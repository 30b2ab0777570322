"""From options to everything a start needs, in the order that tells a user the most."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ninfer_core.api.errors import ArtifactInvalid, PlanRejected
from ninfer_core.plan.device import GpuProbe
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.prepare import Prepared, prepare
from ninfer_core.plan.reference_operations import reference_operations
from ninfer_core.plugins.registry import PluginRegistry
from ninfer_core.testing.tiny import write_tiny_artifact

NONE = GpuProbe((), "no driver here")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tiny_artifact(tmp_path_factory.mktemp("tiny") / "tiny.ninfer"))


@pytest.fixture(scope="module")
def installed() -> PluginRegistry:
    return PluginRegistry.discover(environment={})


@pytest.mark.contract("OPT-13")
def test_the_notes_say_which_device_was_taken_and_why(tiny: str, installed: PluginRegistry, toy: Any) -> None:
    def notes(probe: GpuProbe, **options: Any) -> tuple[str, ...]:
        return prepare(ServeOptions(artifact=tiny, max_context=512, **options), installed, {}, probe).notes

    assert notes(NONE) == ("planned for the CPU: no driver here",)
    assert notes(NONE, device="cpu") == ()
    assert notes(NONE, assume_device_memory=2**34) == ("the CUDA device is assumed: no driver here",)
    assert notes(GpuProbe((toy.cuda(),))) == ()


@pytest.mark.contract("EXEC-8", "EXEC-22")
def test_the_notes_say_when_requests_cannot_run_together(tiny: str, installed: PluginRegistry) -> None:
    def notes(**options: Any) -> tuple[str, ...]:
        plain: dict[str, Any] = {"artifact": tiny, "device": "cpu", "max_context": 512, "max_concurrency": 4}
        return prepare(ServeOptions(**plain | options), installed, {}).notes

    (note,) = notes()
    assert "reserve 512 KV tokens or more of 512, so that at most 1 of 4" in note and "--kv-capacity 2048" in note
    assert "at most 2 of 4" in notes(kv_capacity=1024)[0]
    assert notes(kv_capacity=2048) == notes(default_max_tokens=128) == notes(max_concurrency=1) == ()


def test_what_plain_torch_computes_on_a_gpu_is_said(tiny: str, installed: PluginRegistry, toy: Any) -> None:
    def planned(artifact: str, device: str | int = 0, **options: Any) -> Prepared:
        asked = ServeOptions(artifact=artifact, device=device, max_context=512, **options)
        return prepare(asked, installed, {}, GpuProbe((toy.cuda(2**37),)))

    narrow = planned(tiny)
    mixer = "prefill of Gated DeltaNet: no kernels for heads of 16 × 16 elements and a convolution of width 4"
    assert narrow.reference_operations == (mixer,)
    assert planned(tiny, device="cpu").reference_operations == ()
    assert planned(tiny, kernels="reference").reference_operations == ()
    assert planned("dummy:qwen3.8-27b").reference_operations == ()
    *_, last = planned(tiny, weights="nvfp4").reference_operations
    assert last.startswith("products with nvfp4 matrices of ") and last.endswith("no multiple of 128")

    plan = narrow.plan
    attention = msgspec.structs.replace(plan.geometry.attention, head_dim=48)
    odd = msgspec.structs.replace(plan, geometry=msgspec.structs.replace(plan.geometry, attention=attention))
    said = reference_operations(replace(narrow.resolution, plan=odd), narrow.artifact.header)
    assert said == ("attention: no kernels for heads of 48 elements", mixer)


def test_what_a_start_gets(tiny: str, installed: PluginRegistry) -> None:
    options = ServeOptions(artifact=tiny, max_context=512, device="cpu", model_id="mine")
    prepared = prepare(options, installed, {})
    assert prepared.plan is prepared.resolution.plan
    assert prepared.plan.source == prepared.artifact.header.source
    assert prepared.settings.model_id == "mine"
    assert prepared.resolution.frontend.capabilities == prepared.plan.template


def test_options_then_device_then_artifact(installed: PluginRegistry, tmp_path: Path) -> None:
    absent = str(tmp_path / "absent.ninfer")
    for options, code in (
        (ServeOptions(artifact=absent, device=3, max_concurrency=9), "option_invalid"),
        (ServeOptions(artifact=absent, device=3), "device_missing"),
        (ServeOptions(artifact=absent, kv_dtype="int8"), "not_built_yet"),
    ):
        with pytest.raises(PlanRejected) as caught:
            prepare(options, installed, {}, NONE)
        assert [problem.code for problem in caught.value.problems] == [code]
    with pytest.raises(ArtifactInvalid):
        prepare(ServeOptions(artifact=absent), installed, {}, NONE)
