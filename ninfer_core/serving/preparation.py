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
from ninfer_core.api.service import Result

MAX_THREADS = 4
"""The tokenizer releases the interpreter lock; beyond a few threads rendering is what waits for it."""


class Preparation:
    """A bounded pool. Its queue is bounded by the places of the server: each request has one task at a time.

    A thread cannot be stopped, so its work may outlive the wait for it: `on_done` is called once on the event loop,
    when it is really over.
    """

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
        """Raises what the frontend raises, and RequestQueueTimeout past the deadline."""
        try:
            async with asyncio.timeout(max(0.0, deadline_monotonic - time.monotonic())):
                return await self.run(lambda: self._frontend.prepare(request, self._defaults), on_done)
        except TimeoutError:
            waited_ms = round((time.monotonic() - received_monotonic) * 1000)
            raise RequestQueueTimeout(waited_ms=waited_ms) from None

    async def run(self, work: Callable[[], Result], on_done: Callable[[], None]) -> Result:
        """Give or raise what `work` does."""
        loop = asyncio.get_running_loop()
        task = self._pool.submit(work)
        task.add_done_callback(lambda _: loop.call_soon_threadsafe(on_done))
        return await asyncio.wrap_future(task)

    async def close(self) -> None:
        await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)
