"""What a dummy's program takes of a CUDA device, in a process that has done nothing else, as a server's engine has not:

    python -m tests.gpu.ledger_run NAME LAYERS

LAYERS is a number, or `all`. Printed as JSON: the lines of the plan's ledger, what was found beside them, in bytes, and
the tokens of eight rows.
"""

from __future__ import annotations

from ninfer_core.program.start import settle_environment

settle_environment("cuda")

import json  # noqa: E402
import os  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
from collections.abc import Mapping  # noqa: E402

import torch  # noqa: E402

from ninfer_core.artifact import open_artifact  # noqa: E402
from ninfer_core.plan.device import find_device, probe_gpus  # noqa: E402
from ninfer_core.plan.options import ServeOptions  # noqa: E402
from ninfer_core.plan.resolve import resolve  # noqa: E402
from ninfer_core.plugins import PluginRegistry  # noqa: E402
from ninfer_core.program.build import build_program, device_of  # noqa: E402
from tests.gpu.first_layers import first_layers  # noqa: E402
from tests.gpu.sampled_rows import PROMPTS, generate  # noqa: E402

MIB = 1 << 20


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


def measure(name: str, layers: str) -> Mapping[str, object]:
    registry = PluginRegistry.discover()
    artifact = open_artifact(f"dummy:{name}", registry)
    if layers != "all":
        artifact = first_layers(artifact.header, int(layers))
    options = ServeOptions(device=0, max_concurrency=8)
    plan = resolve(options, registry, artifact.header, find_device(options, probe_gpus()))
    allocated: dict[str, int] = {}
    reserved: dict[str, int] = {}
    peak: dict[str, int] = {}
    seconds: dict[str, float] = {}

    def on_phase(phase: str, took: float) -> None:
        allocated[phase] = torch.cuda.memory_allocated(0)
        reserved[phase] = torch.cuda.memory_reserved(0)
        peak[phase] = torch.cuda.max_memory_allocated(0)
        torch.cuda.reset_peak_memory_stats(0)
        seconds[phase] = round(took, 3)

    with artifact.open_weights() as weights:
        program = build_program(plan, artifact.header, weights, registry, device_of(plan), on_phase)
    made = generate(program, PROMPTS, 0, 24)
    torch.cuda.synchronize()
    return {
        "lines": {line.name: line.bytes for line in plan.ledger.lines},
        "allocated": allocated,
        "reserved_after": reserved,
        "peak": {**peak, "generation": torch.cuda.max_memory_allocated(0)},
        "used": used_bytes(),
        "reserved": torch.cuda.memory_reserved(0),
        "seconds": seconds,
        "token_domain": plan.token_domain,
        "tokens": made,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure(*sys.argv[1:])) + "\n")
