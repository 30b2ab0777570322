"""The workspace of a plan, drafters included, against what units of a real program take at once on the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from ninfer_core.artifact import open_artifact
from ninfer_core.plugins import PluginRegistry
from ninfer_core.program.build import build_program
from ninfer_core.program.contract import RowRound, RowSetup, Sampling
from ninfer_core.testing.live_bytes import peak_bytes
from ninfer_core.testing.tiny import tiny_plan

ROWS, CHUNK = 8, 128
SLACK_BYTES = 1 << 17
SAMPLED = Sampling(temperature=0.7, top_p=0.9, top_k=20, min_p=0.0, presence_penalty=0.5, frequency_penalty=0.0, seed=3)


@pytest.mark.parametrize("options", [{}, {"spec": "mtp"}, {"spec": "dflash2"}], ids=["plain", "mtp", "dflash2"])
def test_units_stay_within_what_was_planned(options: dict[str, Any], registry: PluginRegistry) -> None:
    opened = open_artifact(None, registry)
    roomy = {"max_context": 1024, "max_concurrency": ROWS, "kv_capacity": ROWS * 1024, "prefill_chunk": CHUNK}
    plan = tiny_plan(registry, opened.header, kv_dtype="bf16", **roomy, **options)
    with opened.open_weights() as weights:
        program = build_program(
            plan, opened.header, weights, registry, torch.device("cpu"), lambda phase, seconds: None
        )
    rows: list[int] = []

    def begin() -> None:
        for _ in range(ROWS):
            row = program.open_row(RowSetup(CHUNK, CHUNK + 64, SAMPLED))
            assert row is not None
            program.prefill(row, range(5, 5 + CHUNK), True)
            rows.append(row)

    def go_on() -> None:
        for _ in range(2):
            program.decode([RowRound(row=row, accepted=1) for row in rows])

    used = max(peak_bytes(begin), peak_bytes(go_on))
    planned = plan.ledger.line("workspace").bytes
    assert used <= planned + SLACK_BYTES
    assert planned <= 3 * used
    program.close()
