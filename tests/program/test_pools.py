from __future__ import annotations

import msgspec
import pytest
import torch

from ninfer_core.api import LedgerLine
from ninfer_core.plugins import PluginRegistry
from ninfer_core.program.pools import Pools, allocate_pools
from ninfer_core.testing.tiny import tiny_header, tiny_plan


def tensors(pools: Pools) -> list[torch.Tensor]:
    rows = pools.rows
    kept = [getattr(rows, name) for name in rows.__slots__]
    return [*pools.planes, *pools.state.values(), *pools.records.values(), *kept]


@pytest.mark.contract("EXEC-23")
def test_the_pools_take_the_bytes_of_the_ledger(registry: PluginRegistry) -> None:
    plan = tiny_plan(registry, tiny_header(), max_context=1000, max_concurrency=3)
    allocated = sum(
        tensor.numel() * tensor.element_size() for tensor in tensors(allocate_pools(plan, torch.device("cpu")))
    )
    planned = ("kv_pages", "recurrent_state", "round_records", "row_buffers")
    assert allocated == sum(plan.ledger.line(name).bytes for name in planned)


def test_a_ledger_that_disagrees_is_our_mistake(registry: PluginRegistry) -> None:
    plan = tiny_plan(registry, tiny_header(), max_context=256)
    lines = [
        LedgerLine(name=line.name, bytes=line.bytes + (line.name == "round_records"), formula=line.formula)
        for line in plan.ledger.lines
    ]
    wrong = msgspec.structs.replace(plan, ledger=msgspec.structs.replace(plan.ledger, lines=tuple(lines)))
    with pytest.raises(AssertionError, match="round_records"):
        allocate_pools(wrong, torch.device("cpu"))


def test_axes_of_the_pools(registry: PluginRegistry) -> None:
    plan = tiny_plan(registry, tiny_header(), max_context=256, max_concurrency=2, kv_capacity=256)
    pools = allocate_pools(plan, torch.device("cpu"))
    assert {tuple(plane.shape[:4]) for plane in pools.planes} == {(1, 4, 2, 64)}
    assert pools.state["recurrent"].shape == (3, 2, 4, 16, 16)
    assert pools.records["key"].shape == (3, 2, 2, 2, 16)
    assert pools.rows.block_tables.shape == (2, 4)
