"""Random inputs that are the same in every run, and Triton's interpreter where there is no CUDA device: a test of a
kernel takes `kernel_device` and runs on both."""

from __future__ import annotations

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when a module with kernels is imported


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(20_260_101)


@pytest.fixture(scope="session")
def kernel_device() -> torch.device:
    pytest.importorskip("triton")
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
