"""Rendering and tokenizing off the event loop, on a few threads, within each request's deadline."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ninfer_core.api.errors import GenerationFailed, InvalidPrompt, NinferError, RequestQueueTimeout
from ninfer_core.api.frontend import Frontend, PreparedPrompt, ThinkingDefaults
from ninfer_core.api.request import Channel, GenerationRequest, TemplateOptions
from ninfer_core.api.service import Result
from ninfer_core.engine.messages import pack_token_ids
from ninfer_core.serving.request_checks import check_tools

MAX_THREADS = 4
"""The tokenizer releases the interpreter lock; beyond a few threads rendering is what waits for it."""


@dataclass(frozen=True, slots=True)
class EncodedPrompt:
    """What is needed of a prompt once it has been rendered. `token_ids` are int32; its text is let go of."""

    token_ids: bytes
    tokens: int
    initial_channel: Channel
    resolved: TemplateOptions


def prepare_prompt(
    frontend: Frontend, request: GenerationRequest, defaults: ThinkingDefaults, *, most_tokens: int | None = None
) -> PreparedPrompt:
    """Raises the frontend's own RequestErrors, and GenerationFailed for whatever else it raises."""
    check_tools(request.tools)
    try:
        return frontend.prepare(request, defaults, most_tokens=most_tokens)
    except NinferError:
        raise
    except (Exception, SystemExit) as error:
        raise plugin_failure("made no prompt of this request", error) from error


def encode_prompt(
    frontend: Frontend, request: GenerationRequest, defaults: ThinkingDefaults, *, most_tokens: int | None = None
) -> EncodedPrompt:
    """Raises what `prepare_prompt` does, and InvalidPrompt for ids that are no tokens."""
    prompt = prepare_prompt(frontend, request, defaults, most_tokens=most_tokens)
    return EncodedPrompt(
        token_ids=_packed(prompt.token_ids, frontend.token_domain),
        tokens=len(prompt.token_ids),
        initial_channel=prompt.initial_channel,
        resolved=prompt.resolved,
    )


def _packed(token_ids: Sequence[int], token_domain: int) -> bytes:
    """Nobody looks at the single ids after this: one that is no token would read beyond the embedding."""
    if token_ids and (min(token_ids) < 0 or max(token_ids) >= token_domain):
        raise InvalidPrompt(
            f"the prompt holds token ids outside 0..{token_domain - 1}; tokenizer and model do not match"
        )
    return pack_token_ids(token_ids)


def plugin_failure(undone: str, error: BaseException) -> GenerationFailed:
    """What a client is told of a bug of the model family's. The exception's own text stays out: it may quote a
    prompt or an answer."""
    return GenerationFailed(
        f"the model family's frontend failed and {undone} ({type(error).__name__}); the log says where, on a terminal "
        "--traceback"
    )


class Preparation:
    """A bounded pool. Its queue is bounded by the places of the server: each request has one task at a time.

    A thread cannot be stopped, so its work may outlive the wait for it: `on_done` is called once on the event loop,
    when it is really over. What is sure to have more than `most_tokens` is not tokenized.
    """

    def __init__(
        self,
        frontend: Frontend,
        defaults: ThinkingDefaults,
        *,
        max_threads: int = MAX_THREADS,
        most_tokens: int | None = None,
    ) -> None:
        self._frontend = frontend
        self._defaults = defaults
        self._most_tokens = most_tokens
        threads = min(max_threads, os.cpu_count() or 1)
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="ninfer-prepare")

    async def prepare(
        self,
        request: GenerationRequest,
        *,
        received_monotonic: float,
        deadline_monotonic: float,
        on_done: Callable[[], None],
    ) -> EncodedPrompt:
        """Raises what `encode_prompt` raises, and RequestQueueTimeout past the deadline."""
        try:
            async with asyncio.timeout(max(0.0, deadline_monotonic - time.monotonic())):
                return await self.run(lambda: self._encode(request), on_done)
        except TimeoutError:
            waited_ms = round((time.monotonic() - received_monotonic) * 1000)
            raise RequestQueueTimeout(waited_ms=waited_ms) from None

    def _encode(self, request: GenerationRequest) -> EncodedPrompt:
        return encode_prompt(self._frontend, request, self._defaults, most_tokens=self._most_tokens)

    async def run(self, work: Callable[[], Result], on_done: Callable[[], None]) -> Result:
        """Give or raise what `work` does."""
        loop = asyncio.get_running_loop()
        task = self._pool.submit(work)
        task.add_done_callback(lambda _: loop.call_soon_threadsafe(on_done))
        return await asyncio.wrap_future(task)

    async def close(self) -> None:
        await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)
