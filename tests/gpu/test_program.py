"""The program on a CUDA device: the dummies of published shapes load and decode, and take what their ledger says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch

from ninfer_core.plan.device import find_device, probe_gpus
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.resolve import resolve
from ninfer_core.plugins import PluginRegistry
from ninfer_core.program.build import build_program, device_of
from ninfer_core.testing.tiny import tiny_artifact
from tests.gpu.sampled_rows import PROMPTS, generate

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

MIB = 1 << 20
LEDGER_SLACK_BYTES = 64 * MIB
"""Every line of the byte ledger is within 64 MiB of what the device reports."""

SOME_LAYERS = 8

MATRIX_WORKSPACE_BYTES = 32 * MIB
"""Of the matrix library; reserved by torch, and part of the ledger's device context."""

ROOT = Path(__file__).parents[2]
RUN_SECONDS = 300


@pytest.fixture(scope="module")
def registry() -> PluginRegistry:
    return PluginRegistry.discover()


@pytest.mark.parametrize("layers", [SOME_LAYERS, pytest.param("all", marks=pytest.mark.long)], ids=["some", "all"])
@pytest.mark.parametrize("name", ["qwen3.8-27b", "qwen3.6-35b-a3b"])
def test_a_dummy_decodes_in_the_bytes_of_its_ledger(
    name: str, layers: int | str, report: Callable[[str, Mapping[str, object]], None]
) -> None:
    """In a process of its own: what tests have left in this one, such as workspaces of the matrix library for streams
    that they captured on, is no server's."""
    command = [sys.executable, "-m", "tests.gpu.ledger_run", name, str(layers)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=RUN_SECONDS, check=False)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    report(f"ledger-{name}", found)
    lines, allocated, reserved = found["lines"], found["allocated"], found["reserved"]
    pools = sum(lines[each] for each in ("kv_pages", "recurrent_state", "round_records", "row_buffers"))
    planned = sum(lines.values()) - lines["headroom"]
    assert all(0 <= token < found["token_domain"] for tokens in found["tokens"] for token in tokens)
    assert len({tuple(tokens) for tokens in found["tokens"]}) == 8
    assert abs(allocated["weights"] - lines["weights"]) <= LEDGER_SLACK_BYTES
    assert abs(allocated["pools"] - allocated["weights"] - pools) <= LEDGER_SLACK_BYTES
    assert abs(reserved - MATRIX_WORKSPACE_BYTES - lines["weights"] - pools - lines["workspace"]) <= LEDGER_SLACK_BYTES
    assert abs(found["used"] - planned) <= LEDGER_SLACK_BYTES


@pytest.mark.parametrize("experts", [False, True], ids=["dense", "experts"])
def test_a_batch_of_eight_equals_one_at_a_time(experts: bool, registry: PluginRegistry) -> None:
    artifact = tiny_artifact(experts=experts)
    options = ServeOptions(device=0, max_concurrency=8, max_context=512, kv_capacity=8 * 512)
    plan = resolve(options, registry, artifact.header, find_device(options, probe_gpus()))
    with artifact.open_weights() as weights:
        program = build_program(plan, artifact.header, weights, registry, device_of(plan), lambda phase, took: None)
    alone = [generate(program, [tokens], seed, 40)[0] for seed, tokens in enumerate(PROMPTS)]
    assert generate(program, PROMPTS, 0, 40) == alone
