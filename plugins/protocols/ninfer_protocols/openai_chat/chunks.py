"""A generation -> the chunks of a streamed answer, in the order of contract CHAT-45, CHAT-46 and OBS-8 to 14."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from ninfer_core.api import Admitted, Finished, Generation, Progress, TextDelta, ToolCallDelta
from ninfer_protocols.openai_chat.lowering import ChatCall
from ninfer_protocols.openai_chat.responses import (
    AnswerIdentity,
    finish_reason,
    live_timings_object,
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
            case Progress():
                for frame in chunks.progressed(event):
                    yield frame
            case TextDelta():
                yield chunks.delta(event)
            case ToolCallDelta():
                yield chunks.call(event)
            case Finished():
                for frame in chunks.finished(event):
                    yield frame
    yield DONE


class _ChunkWriter:
    """Knows what has been said so far."""

    def __init__(self, call: ChatCall, identity: AnswerIdentity) -> None:
        self._identity = identity
        self._include_usage = call.include_usage
        self._timings_per_token = call.timings_per_token
        self._tell_progress = call.return_progress
        self._prompt = Admitted(prompt_tokens=0, cached_tokens=0)
        self._told_tokens = -1
        self._called = False

    def admitted(self, event: Admitted) -> list[bytes]:
        """The first progress is what was cached (contract OBS-10, OBS-12)."""
        self._prompt = event
        role = self._frame(self._choice({"role": "assistant", "content": ""}))
        return [role, *self.progressed(Progress(processed_tokens=event.cached_tokens, seconds=0.0))]

    def progressed(self, event: Progress) -> list[bytes]:
        if not self._tell_progress or event.processed_tokens <= self._told_tokens:
            return []
        self._told_tokens = event.processed_tokens
        progress = {
            "total": self._prompt.prompt_tokens,
            "cache": self._prompt.cached_tokens,
            "processed": event.processed_tokens,
            "time_ms": event.seconds * 1000,
        }
        return [self._frame(self._choice({}), prompt_progress=progress)]

    def delta(self, event: TextDelta) -> bytes:
        field = "reasoning_content" if event.channel == "reasoning" else "content"
        choice = self._choice({field: event.text})
        if not self._timings_per_token or event.live is None:
            return self._frame(choice)
        prompt = self._prompt
        timings = live_timings_object(
            event.live, prompt_tokens=prompt.prompt_tokens, cached_tokens=prompt.cached_tokens
        )
        return self._frame(choice, timings=timings)

    def call(self, event: ToolCallDelta) -> bytes:
        """A call comes whole, in one chunk: it is certain only when the answer is over."""
        self._called = True
        return self._frame(self._choice({"tool_calls": [{"index": event.index, **tool_call_object(event)}]}))

    def finished(self, event: Finished) -> list[bytes]:
        timings = {"timings": timings_object(event)}
        finish = self._choice({}, finish_reason(event.reason, called=self._called))
        if not self._include_usage:
            return [self._frame(finish, **timings)]
        return [self._frame(finish), self._frame(None, usage=usage_object(event.usage), **timings)]

    def _frame(self, choice: dict[str, Any] | None, **extra: Any) -> bytes:
        chunk = self._identity.envelope("chat.completion.chunk")
        chunk["choices"] = [] if choice is None else [choice]
        if self._include_usage:
            chunk["usage"] = None
        return data_frame(chunk | extra)

    def _choice(self, delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
