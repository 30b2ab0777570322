"""A generation service that says what it was told to: for tests of protocols, without a model or an engine.

The least of the scripted parts: events are written down as a protocol receives them, so stop strings, parsing and
limits do not happen. `scripted_application` puts it behind the layers of a server; `scripted_server` is another thing,
the real service over an engine that writes scripted tokens.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ninfer_core.api.errors import RequestError
from ninfer_core.api.frontend import TemplateCapabilities, ToolCallReport
from ninfer_core.api.request import Channel, GenerationRequest
from ninfer_core.api.service import (
    Admitted,
    Finished,
    FinishReason,
    GenerationEvent,
    LiveTimings,
    Progress,
    Result,
    Scope,
    ServedModel,
    Speculation,
    TextDelta,
    Timings,
    ToolCallDelta,
    Usage,
)


@dataclass(frozen=True, slots=True)
class EventScript:
    """One answer. Each piece is one token, and so is each of `calls`; `pause_seconds` passes before every event.

    `refusal` is raised instead of an answer by `start`, `failure` after the pieces instead of the end.
    """

    pieces: Sequence[tuple[Channel, str]] = (("content", "Hello"), ("content", " there."))
    calls: Sequence[tuple[str, dict[str, Any]]] = ()
    reason: FinishReason = "stop_token"
    stop_string: str | None = None
    prompt_tokens: int = 7
    cached_tokens: int = 0
    pause_seconds: float = 0.0
    prompt_seconds: float = 0.5
    generation_seconds: float = 2.0
    speculation: Speculation | None = None
    refusal: RequestError | None = None
    failure: RequestError | None = None


class ScriptedService:
    """GenerationService. Every answer follows `script`; what was asked is kept in `requests`, and for
    whom in `scopes`; `offloads` counts work on threads.

    `open_generations` says how many answers have not been closed: zero after every exchange, however it ended.
    """

    def __init__(self, script: EventScript | None = None, model_id: str = "scripted-model") -> None:
        self.script = script or EventScript()
        self.requests: list[GenerationRequest] = []
        self.scopes: list[Scope | None] = []
        self.offloads = 0
        self.open_generations = 0
        self.model = ServedModel(
            model_id=model_id,
            max_context=4096,
            created_unix_seconds=1_700_000_000,
            capabilities=TemplateCapabilities(
                thinking_toggle=True,
                efforts=("low", "medium", "xhigh"),
                default_effort="xhigh",
                preserve_thinking=True,
                tools=True,
            ),
        )

    async def offload(self, work: Callable[[], Result]) -> Result:
        self.offloads += 1
        return await asyncio.to_thread(work)

    async def start(self, request: GenerationRequest, scope: Scope | None) -> ScriptedGeneration:
        self.requests.append(request)
        self.scopes.append(scope)
        if self.script.refusal is not None:
            raise self.script.refusal
        self.open_generations += 1
        return ScriptedGeneration(self, self.script, request)

    async def count_tokens(self, request: GenerationRequest) -> int:
        self.requests.append(request)
        return self.script.prompt_tokens


class ScriptedGeneration:
    """Generation over one script."""

    def __init__(self, service: ScriptedService, script: EventScript, request: GenerationRequest) -> None:
        self._service = service
        self._script = script
        self._closed = False
        self.resolved = request.template

    async def __aiter__(self) -> AsyncIterator[GenerationEvent]:
        script = self._script
        await asyncio.sleep(script.pause_seconds)
        yield Admitted(prompt_tokens=script.prompt_tokens, cached_tokens=script.cached_tokens)
        for processed, seconds in self._progress():
            yield Progress(processed_tokens=processed, seconds=seconds)
        for index, (channel, text) in enumerate(script.pieces):
            await asyncio.sleep(script.pause_seconds)
            yield TextDelta(channel=channel, text=text, live=self._live(index))
        for index, (name, arguments) in enumerate(script.calls):
            await asyncio.sleep(script.pause_seconds)
            yield ToolCallDelta(index=index, name=name, arguments=arguments)
        if script.failure is not None:
            raise script.failure
        timings = Timings(
            queue_seconds=0.0, prompt_seconds=script.prompt_seconds, generation_seconds=script.generation_seconds
        )
        yield Finished(
            reason=script.reason,
            stop_string=script.stop_string,
            usage=self._usage(),
            timings=timings,
            tool_calls=ToolCallReport(marker_seen=bool(script.calls), structured_calls=len(script.calls)),
            speculation=script.speculation,
        )

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            self._service.open_generations -= 1

    def _progress(self) -> list[tuple[int, float]]:
        """Half of what is not cached, then the whole prompt."""
        script = self._script
        half = (script.cached_tokens + script.prompt_tokens) // 2
        return [(half, script.prompt_seconds / 2), (script.prompt_tokens, script.prompt_seconds)]

    def _live(self, index: int) -> LiveTimings:
        script = self._script
        share = index / max(len(script.pieces) - 1, 1)
        return LiveTimings(
            output_tokens=index + 1,
            prompt_seconds=script.prompt_seconds,
            generation_seconds=script.generation_seconds * share,
        )

    def _usage(self) -> Usage:
        pieces = self._script.pieces
        return Usage(
            prompt_tokens=self._script.prompt_tokens,
            cached_tokens=self._script.cached_tokens,
            output_tokens=len(pieces) + len(self._script.calls),
            reasoning_tokens=sum(channel == "reasoning" for channel, _ in pieces),
        )
