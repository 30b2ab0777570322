"""Launches that begin while the one ahead of them ends."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def follow(DEPENDENT: tl.constexpr):
    """Wait for the results of the launch ahead, then let the next one begin. What is older than the launch ahead may be
    read before: that one has waited for it. Does nothing in a launch that is not DEPENDENT."""
    if DEPENDENT:
        gdc_wait()
        gdc_launch_dependents()
