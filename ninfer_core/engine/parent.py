"""What a process owes the one that started it."""

from __future__ import annotations

import ctypes
import signal
import sys

_PR_SET_PDEATHSIG = 1
"""`linux/prctl.h`."""


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent dies; elsewhere the end of what connects them has to do."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
