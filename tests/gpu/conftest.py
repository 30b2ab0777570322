"""Tests here import torch with the allocator set as the engine sets it."""

from __future__ import annotations

import os

from ninfer_core.program.start import ALLOCATOR_SETTING, ALLOCATOR_VARIABLE

os.environ.setdefault(ALLOCATOR_VARIABLE, ALLOCATOR_SETTING)
