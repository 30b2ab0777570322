"""Kernels are compiled without a launch, once each, for exactly what would be launched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

KERNELS = """
import triton
import triton.language as tl

@triton.jit
def add_kernel(x, y, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + place, tl.load(x + place, mask=place < n) + 1, mask=place < n)
"""
PROGRAM = """
import torch
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver

class NoDevice:
    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)
    def get_current_device(self):
        return 0
    def get_current_stream(self, device=None):
        return 0

driver.set_active(NoDevice())
from kernels import add_kernel
from ninfer_core.program.compilation import compiling_only

with torch.inference_mode(), compiling_only() as handed_over:
    x = torch.empty(1000)
    assert torch.equal(x, torch.zeros(1000)), "what a kernel would have written is no valid index"
    for block in (64, 128, 64, 128):
        add_kernel[(1,)](x, torch.empty_like(x), 1000, BLOCK=block)
    add_kernel[(1,)](x[1:], torch.empty_like(x), 1000, BLOCK=64)
    print(handed_over())
compiled = add_kernel.device_caches[0][0]
print(len(compiled), {type(each).__name__ for each in compiled.values()})
"""


@pytest.mark.long
def test_each_kernel_is_compiled_once_and_none_is_launched(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    (tmp_path / "kernels.py").write_text(KERNELS)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "TRITON_CACHE_DIR": str(tmp_path / "cache")}
    environment.pop("TRITON_INTERPRET", None)
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split("\n")[:2] == ["3", "3 {'CompiledKernel'}"]


SHARED_BYTES = 232_448
"""Of one program on compute capability 9.0."""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Triton's cache: many kernels of a shape are those of another one too."""
    return tmp_path_factory.mktemp("compiled")


@pytest.mark.long
@pytest.mark.parametrize(
    "words",
    [
        ("dummy:qwen3.8-27b", "bf16", "bf16"),
        ("dummy:qwen3.8-27b", "fp8", "fp8"),
        ("dummy:qwen3.8-27b", "bf16", "nvfp4"),
        ("dummy:qwen3.6-35b-a3b", "bf16", "bf16"),
        ("dummy:qwen3.6-35b-a3b", "fp8", "fp8"),
        ("dummy:qwen3.8-27b", "bf16", "bf16", "mtp", "3"),
        ("dummy:qwen3.8-27b", "fp8", "fp8", "mtp", "5"),
        ("dummy:qwen3.8-27b", "fp8", "fp8", "dflash2", "7"),
    ],
    ids="-".join,
)
def test_every_kernel_of_a_published_shape_compiles_without_its_device(words: tuple[str, ...], compiled: Path) -> None:
    pytest.importorskip("triton")
    environment = {**os.environ, "TRITON_CACHE_DIR": str(compiled)}
    environment.pop("TRITON_INTERPRET", None)
    script = Path(__file__).with_name("compile_plan.py")
    run = subprocess.run(
        [sys.executable, str(script), *words], capture_output=True, text=True, env=environment, check=False
    )
    assert run.returncode == 0, run.stderr
    kernels, shared = map(int, run.stdout.split()[-2:])
    assert kernels >= 20
    assert shared <= SHARED_BYTES
