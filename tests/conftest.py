"""What has to be settled before any test module is imported: the allocator as the engine sets it, and Triton's
interpreter where there is no CUDA device. Kernels are made for one or the other when their modules are imported."""

from __future__ import annotations

import os
from importlib.util import find_spec

from ninfer_core.program.start import settle_environment
from ninfer_core.testing.interpreter import patch_once_a_launch

settle_environment("cuda")

import pytest  # noqa: E402
import torch  # noqa: E402

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
    if find_spec("triton") is not None:
        patch_once_a_launch()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--results", metavar="FOLDER", help="where tests on a device leave the figures that they found")
