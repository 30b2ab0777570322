"""Rendering and tokenizing off the event loop, on a few threads, within each request's deadline."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from ninfer_core.api.errors import RequestQueueTimeout
from ninfer_core.api.frontend import Frontend, PreparedPrompt, ThinkingDefaults
from ninfer_core.api.request import GenerationRequest

MAX_THREADS = 4
"""The tokenizer releases the interpreter lock; beyond a few threads rendering is what waits for it."""


class Preparation:
    """A bounded pool. Its queue is bounded by the places of the server: each request has one task at a time."""

    def __init__(self, frontend: Frontend, defaults: ThinkingDefaults, max_threads: int = MAX_THREADS) -> None:
        self._frontend = frontend
        self._defaults = defaults
        threads = min(max_threads, os.cpu_count() or 1)
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="ninfer-prepare")

    async def prepare(
        self,
        request: GenerationRequest,
        *,
        received_monotonic: float,
        deadline_monotonic: float,
        on_done: Callable[[], None],
    ) -> PreparedPrompt:
        """Raises what the frontend raises, and RequestQueueTimeout past the deadline.

        A thread cannot be stopped, so its work may outlive the wait for it: `on_done` is called once on the event
        loop, when it is really over.
        """
        loop = asyncio.get_running_loop()
        task = self._pool.submit(self._frontend.prepare, request, self._defaults)
        task.add_done_callback(lambda _: loop.call_soon_threadsafe(on_done))
        try:
            async with asyncio.timeout(max(0.0, deadline_monotonic - time.monotonic())):
                return await asyncio.wrap_future(task)
        except TimeoutError:
            waited_ms = round((time.monotonic() - received_monotonic) * 1000)
            raise RequestQueueTimeout(waited_ms=waited_ms) from None

    async def close(self) -> None:
        await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)
