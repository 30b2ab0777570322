"""Work on what a client sent, on the event loop while it is small and on a thread once it is large."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ninfer_core.api import GenerationService

LARGE_BYTES = 256 * 1024
"""Understanding so much JSON takes some milliseconds, which is a token of everybody else. Below it, handing the work to
a thread and back costs more than it spares."""

Result = TypeVar("Result")


async def offloaded(service: GenerationService, size_bytes: int, work: Callable[[], Result]) -> Result:
    """What `work` gives or raises; `size_bytes` is what it has to look at."""
    return work() if size_bytes <= LARGE_BYTES else await service.offload(work)
