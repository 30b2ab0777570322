"""Random inputs that are the same in every run. A test of a kernel takes `kernel_device`: the CUDA device, or the CPU,
where Triton interprets."""

from __future__ import annotations

import pytest
import torch

from ninfer_core.testing.tolerances import BF16_OPERATION, FP32_OPERATION, Tolerance


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(20_260_101)


@pytest.fixture(scope="session")
def kernel_device() -> torch.device:
    pytest.importorskip("triton")
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(scope="module")
def dtype(kernel_device: torch.device) -> torch.dtype:
    """The interpreter cannot multiply bfloat16."""
    return torch.bfloat16 if kernel_device.type == "cuda" else torch.float32


@pytest.fixture(scope="module")
def tolerance(dtype: torch.dtype) -> Tolerance:
    return BF16_OPERATION if dtype == torch.bfloat16 else FP32_OPERATION
