from __future__ import annotations

import msgspec
import pytest

from ninfer_core.api.frontend import SamplingPresets
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.api.request import SamplingOptions
from ninfer_core.serving.sampling import resolve_sampling
from ninfer_core.testing.simulated_plan import simulated_plan


def plan(*, greedy: bool = False, **overrides: float) -> ExecutionPlan:
    presets = SamplingPresets(
        thinking=SamplingOptions(temperature=1.0, top_p=0.95, top_k=20, presence_penalty=0.0),
        non_thinking=SamplingOptions(temperature=0.7, top_p=0.8, top_k=20, presence_penalty=1.5),
    )
    options = msgspec.convert(overrides, SamplingOptions)
    return msgspec.structs.replace(simulated_plan(), presets=presets, sampling_overrides=options, greedy=greedy)


@pytest.mark.contract("OPT-45", "OPT-46")
def test_request_before_flags_before_preset() -> None:
    base = plan(temperature=0.3, top_p=0.5)
    sampling = resolve_sampling(base, SamplingOptions(temperature=0.9), thinking=False)
    assert (sampling.temperature, sampling.top_p, sampling.presence_penalty) == (0.9, 0.5, 1.5)
    assert (sampling.min_p, sampling.frequency_penalty) == (0, 0)
    assert resolve_sampling(base, SamplingOptions(), thinking=True).presence_penalty == 0


@pytest.mark.contract("OPT-45")
def test_zero_in_a_request_is_a_value() -> None:
    sampling = resolve_sampling(
        plan(temperature=0.3), SamplingOptions(temperature=0, presence_penalty=0), thinking=False
    )
    assert (sampling.temperature, sampling.presence_penalty) == (0, 0)


@pytest.mark.contract("OPT-44", "OPT-45")
def test_greedy_comes_last() -> None:
    assert resolve_sampling(plan(greedy=True), SamplingOptions(temperature=2), thinking=True).temperature == 0


@pytest.mark.contract("OPT-41", "CHAT-10")
@pytest.mark.parametrize(("asked", "used"), [(0, 20), (1, 1), (20, 20)])
def test_top_k_zero_is_the_cap(asked: int, used: int) -> None:
    assert resolve_sampling(plan(), SamplingOptions(top_k=asked), thinking=True).top_k == used


@pytest.mark.contract("OPT-43")
def test_seeds() -> None:
    fixed = plan(seed=5)
    assert resolve_sampling(fixed, SamplingOptions(), thinking=True).seed == 5
    assert resolve_sampling(fixed, SamplingOptions(seed=-3), thinking=True).seed == -3
    assert resolve_sampling(fixed, SamplingOptions(seed=0), thinking=True).seed == 0
    free = {resolve_sampling(plan(), SamplingOptions(), thinking=True).seed for _ in range(20)}
    assert len(free) == 20 and all(0 <= seed < 2**63 for seed in free)
