"""Tests here import torch with the allocator set as the engine sets it."""

from __future__ import annotations

from ninfer_core.program.start import settle_environment

settle_environment("cuda")
