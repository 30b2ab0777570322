from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
import torch

from ninfer_core.api import ExecutionPlan
from ninfer_core.api.errors import StartFailed
from ninfer_core.plugins import PluginRegistry
from ninfer_core.program.build import SMALL_WEIGHTS_BYTES, remedied, settle_threads
from ninfer_core.testing.tiny import tiny_header, tiny_plan


@pytest.fixture
def two_threads() -> Iterator[None]:
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


def plan_with(registry: PluginRegistry, weights_bytes: int) -> ExecutionPlan:
    plan = tiny_plan(registry, tiny_header(), max_context=256)
    lines = [
        msgspec.structs.replace(line, bytes=weights_bytes) if line.name == "weights" else line
        for line in plan.ledger.lines
    ]
    return msgspec.structs.replace(plan, ledger=msgspec.structs.replace(plan.ledger, lines=tuple(lines)))


@pytest.mark.parametrize(
    ("weights_bytes", "device", "environment", "threads"),
    [
        (SMALL_WEIGHTS_BYTES, "cpu", {}, 1),
        (SMALL_WEIGHTS_BYTES, "cpu", {"OMP_NUM_THREADS": "2"}, 2),
        (SMALL_WEIGHTS_BYTES + 1, "cpu", {}, 2),
        (SMALL_WEIGHTS_BYTES, "cuda", {}, 2),
    ],
)
@pytest.mark.usefixtures("two_threads")
def test_small_models_run_on_one_thread(
    registry: PluginRegistry, weights_bytes: int, device: str, environment: dict[str, str], threads: int
) -> None:
    settle_threads(plan_with(registry, weights_bytes), torch.device(device), environment)
    assert torch.get_num_threads() == threads


def test_what_keeps_a_start_from_going_on_comes_with_a_way_out() -> None:
    words = r"cannot be captured \(RuntimeError: operation not permitted\); --no-cuda"
    with pytest.raises(StartFailed, match=words), remedied("rounds cannot be captured", "--no-cuda-graph"):
        raise RuntimeError("operation not permitted")
    for ours in (StartFailed("no memory"), torch.OutOfMemoryError("no memory"), AssertionError("no memory")):
        with pytest.raises(type(ours), match="no memory"), remedied("it", "something else"):
            raise ours
