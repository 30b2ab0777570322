"""The program on a CUDA device: the dummies of published shapes load and decode, and take what their ledger says."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import torch

from ninfer_core.api import DeviceInfo
from ninfer_core.artifact import open_artifact
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.resolve import resolve
from ninfer_core.plugins import PluginRegistry
from ninfer_core.program.build import build_program, device_of
from ninfer_core.program.contract import RowRound, RowSetup, Sampling
from ninfer_core.program.runner import DeviceProgram
from ninfer_core.testing.tiny import tiny_artifact
from tests.gpu.first_layers import first_layers

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


@pytest.fixture(scope="module")
def registry() -> PluginRegistry:
    return PluginRegistry.discover()


def device_info() -> DeviceInfo:
    properties = torch.cuda.get_device_properties(0)
    return DeviceInfo(
        kind="cuda",
        index=0,
        name=properties.name,
        memory_bytes=properties.total_memory,
        compute_capability=f"{properties.major}.{properties.minor}",
    )


def used_bytes() -> int:
    """What the driver counts as taken by this process, since others may use the device too; by everybody where the
    driver does not know it by our number, as in some containers."""
    asked = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    listed = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    by_process = dict(line.split(",") for line in listed.splitlines())
    if (mebibytes := by_process.get(str(os.getpid()))) is not None:
        return int(mebibytes) * MIB
    free, total = torch.cuda.mem_get_info(0)
    return total - free


def sampling(seed: int) -> Sampling:
    return Sampling(
        temperature=0.0 if seed == 0 else 1.0,
        top_p=0.95,
        top_k=20,
        min_p=0.0,
        presence_penalty=0.5,
        frequency_penalty=0.0,
        seed=seed,
    )


def generate(program: DeviceProgram, prompts: Sequence[Sequence[int]], first_seed: int, count: int) -> list[list[int]]:
    """All prompts in one batch."""
    rows, made = [], []
    for offset, tokens in enumerate(prompts):
        row = program.open_row(RowSetup(len(tokens), len(tokens) + count, sampling(first_seed + offset)))
        assert row is not None
        candidate = program.prefill(row, tokens, last=True)
        assert candidate is not None
        rows.append(row)
        made.append([candidate])
    for _ in range(count - 1):
        for tokens_of_row, candidates in zip(
            made, program.decode([RowRound(row=row, accepted=1) for row in rows]), strict=True
        ):
            tokens_of_row.extend(candidates)
    for row in rows:
        program.close_row(row)
    return made


PROMPTS = [[(7 * place + 13 * length) % 250 for place in range(length)] for length in (5, 64, 65, 200, 1, 30, 128, 90)]


@pytest.mark.parametrize("layers", [SOME_LAYERS, pytest.param(None, marks=pytest.mark.long)], ids=["some", "all"])
@pytest.mark.parametrize("name", ["qwen3.8-27b", "qwen3.6-35b-a3b"])
def test_a_dummy_decodes_in_the_bytes_of_its_ledger(name: str, layers: int | None, registry: PluginRegistry) -> None:
    artifact = open_artifact(f"dummy:{name}", registry)
    if layers is not None:
        artifact = first_layers(artifact.header, layers)
    plan = resolve(ServeOptions(device=0, max_concurrency=8), registry, artifact.header, device_info())
    torch.cuda.empty_cache()
    before, torch_before = used_bytes(), torch.cuda.memory_allocated(0)
    allocated: dict[str, int] = {}
    reserved_after: dict[str, int] = {}
    peak: dict[str, int] = {}
    seconds: dict[str, float] = {}

    def on_phase(phase: str, took: float) -> None:
        allocated[phase] = torch.cuda.memory_allocated(0) - torch_before
        reserved_after[phase] = torch.cuda.memory_reserved(0)
        peak[phase] = torch.cuda.max_memory_allocated(0) - torch_before
        torch.cuda.reset_peak_memory_stats(0)
        seconds[phase] = round(took, 3)

    with artifact.open_weights() as weights:
        program = build_program(plan, artifact.header, weights, registry, device_of(plan), on_phase)
    made = generate(program, PROMPTS, 0, 24)
    torch.cuda.synchronize()
    lines = {line.name: line.bytes for line in plan.ledger.lines}
    pools = sum(lines[each] for each in ("kv_pages", "recurrent_state", "round_records", "row_buffers"))
    taken = used_bytes() - before
    planned = sum(lines.values()) - lines["headroom"]
    _report(
        name,
        {
            "lines": lines,
            "allocated": allocated,
            "reserved_after": reserved_after,
            "peak": {**peak, "generation": torch.cuda.max_memory_allocated(0) - torch_before},
            "used": used_bytes(),
            "taken": taken,
            "planned": planned,
            "reserved": torch.cuda.memory_reserved(0),
            "seconds": seconds,
        },
    )
    domain = plan.token_domain
    assert all(0 <= token < domain for tokens in made for token in tokens)
    assert len({tuple(tokens) for tokens in made}) == 8
    assert abs(allocated["weights"] - lines["weights"]) <= LEDGER_SLACK_BYTES
    assert abs(allocated["pools"] - allocated["weights"] - pools) <= LEDGER_SLACK_BYTES
    reserved = torch.cuda.memory_reserved(0)
    assert abs(reserved - MATRIX_WORKSPACE_BYTES - lines["weights"] - pools - lines["workspace"]) <= LEDGER_SLACK_BYTES
    assert abs(used_bytes() - planned) <= LEDGER_SLACK_BYTES


@pytest.mark.parametrize("experts", [False, True], ids=["dense", "experts"])
def test_a_batch_of_eight_equals_one_at_a_time(experts: bool, registry: PluginRegistry) -> None:
    artifact = tiny_artifact(experts=experts)
    options = ServeOptions(device=0, max_concurrency=8, max_context=512, kv_capacity=8 * 512)
    plan = resolve(options, registry, artifact.header, device_info())
    with artifact.open_weights() as weights:
        program = build_program(plan, artifact.header, weights, registry, device_of(plan), lambda phase, took: None)
    alone = [generate(program, [tokens], seed, 40)[0] for seed, tokens in enumerate(PROMPTS)]
    assert generate(program, PROMPTS, 0, 40) == alone


def _report(name: str, figures: Mapping[str, object]) -> None:
    """Figures of the run, for whoever tunes the ledger, where the runner collects files."""
    if folder := os.environ.get("OUT"):
        (Path(folder) / f"ledger-{name}.json").write_text(json.dumps(figures, indent=1))
