"""Triton's interpreter where there is no CUDA device, before any module of these tests imports Triton."""

from __future__ import annotations

import os

import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when Triton and modules with kernels are imported
