"""A generation -> the chunks of a streamed answer, in the order of contract CHAT-45, CHAT-46 and OBS-9 to 13."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from typing import Any

from ninfer_core.api import Admitted, Finished, Generation, TextDelta, ToolCallDelta
from ninfer_protocols.openai_chat.lowering import ChatCall
from ninfer_protocols.openai_chat.responses import (
    AnswerIdentity,
    finish_reason,
    timings_object,
    tool_call_object,
    usage_object,
)
from ninfer_protocols.wire.sse import DONE, data_frame


async def stream_frames(
    generation: Generation, call: ChatCall, identity: AnswerIdentity
) -> AsyncGenerator[bytes, None]:
    """Frames of one answer. The first is ready once the request is admitted, not when its prompt is processed."""
    chunks = _ChunkWriter(call, identity)
    async for event in generation:
        match event:
            case Admitted():
                for frame in chunks.admitted(event):
                    yield frame
            case TextDelta():
                for frame in chunks.delta(event):
                    yield frame
            case ToolCallDelta():
                for frame in chunks.call(event):
                    yield frame
            case Finished():
                for frame in chunks.finished(event):
                    yield frame
    yield DONE


class _ChunkWriter:
    """Knows what has been said so far. Progress is told at admission and at the end of the prompt: later events
    may coalesce (contract OBS-10)."""

    def __init__(self, call: ChatCall, identity: AnswerIdentity) -> None:
        self._identity = identity
        self._include_usage = call.include_usage
        self._tell_progress = call.return_progress
        self._admitted: Admitted | None = None
        self._admitted_monotonic = 0.0
        self._called = False

    def admitted(self, event: Admitted) -> list[bytes]:
        self._admitted_monotonic = time.monotonic()
        frames = [self._frame(self._choice({"role": "assistant", "content": ""}))]
        if self._tell_progress:
            frames.append(self._progress(event, processed=event.cached_tokens))
            self._admitted = event if event.cached_tokens < event.prompt_tokens else None
        return frames

    def delta(self, event: TextDelta) -> list[bytes]:
        field = "reasoning_content" if event.channel == "reasoning" else "content"
        return [*self._prompt_done(), self._frame(self._choice({field: event.text}))]

    def call(self, event: ToolCallDelta) -> list[bytes]:
        """A call comes whole, in one chunk: it is certain only when the answer is over."""
        self._called = True
        delta = {"tool_calls": [{"index": event.index, **tool_call_object(event)}]}
        return [*self._prompt_done(), self._frame(self._choice(delta))]

    def finished(self, event: Finished) -> list[bytes]:
        timings = {"timings": timings_object(event.usage, event.timings)}
        finish = self._choice({}, finish_reason(event.reason, called=self._called))
        if not self._include_usage:
            return [*self._prompt_done(), self._frame(finish, **timings)]
        usage = {"usage": usage_object(event.usage)}
        return [*self._prompt_done(), self._frame(finish), self._frame(None, **usage, **timings)]

    def _prompt_done(self) -> list[bytes]:
        """The last progress event, once, before the first output (contract OBS-11)."""
        event, self._admitted = self._admitted, None
        return [] if event is None else [self._progress(event, processed=event.prompt_tokens)]

    def _progress(self, event: Admitted, processed: int) -> bytes:
        progress = {
            "total": event.prompt_tokens,
            "cache": event.cached_tokens,
            "processed": processed,
            "time_ms": (time.monotonic() - self._admitted_monotonic) * 1000,
        }
        return self._frame(self._choice({}), prompt_progress=progress)

    def _frame(self, choice: dict[str, Any] | None, **extra: Any) -> bytes:
        chunk = self._identity.envelope("chat.completion.chunk")
        chunk["choices"] = [] if choice is None else [choice]
        if self._include_usage:
            chunk["usage"] = None
        return data_frame(chunk | extra)

    def _choice(self, delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
