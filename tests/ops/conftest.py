"""Random inputs that are the same in every run. A test of a kernel takes `kernel_device`: the CUDA device, or the CPU,
where Triton interprets."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(20_260_101)


@pytest.fixture(scope="session")
def kernel_device() -> torch.device:
    pytest.importorskip("triton")
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
