"""One accepted request as its protocol reads it, and the one record of how it ended."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable

from ninfer_core.api.errors import RequestCancelled, RequestError
from ninfer_core.api.frontend import ToolCallReport
from ninfer_core.api.request import TemplateOptions
from ninfer_core.api.service import Finished, GenerationEvent, Speculation, Usage
from ninfer_core.serving.output_stage import OutputStage
from ninfer_core.serving.places import Place
from ninfer_core.serving.preparation import plugin_failure
from ninfer_core.serving.request_events import RequestEvents
from ninfer_core.telemetry import Log


class EngineGeneration:
    """Generation over the events of one request."""

    def __init__(
        self,
        resolved: TemplateOptions,
        events: RequestEvents,
        stage: OutputStage,
        log: RequestLog,
        cancel: Callable[[], None],
        place: Place,
    ) -> None:
        self.resolved = resolved
        self._events = events
        self._stage = stage
        self._log = log
        self._cancel = cancel
        self._place: Place | None = place

    async def __aiter__(self) -> AsyncIterator[GenerationEvent]:
        try:
            while (event := await self._events.next()) is not None:
                for seen in self._parsed(event):
                    if isinstance(seen, Finished):
                        self._log.done(seen)
                    yield seen
        except RequestError as error:
            self._log.failed(error)
            raise

    def _parsed(self, event: GenerationEvent) -> tuple[GenerationEvent, ...]:
        try:
            return self._stage.push(event)
        except (Exception, SystemExit) as error:
            self._log.parser_failed(error)
            raise plugin_failure("could not read its own model's answer", error) from error

    async def aclose(self) -> None:
        if self._place is None:
            return
        place, self._place = self._place, None
        if not self._events.ended:
            self._cancel()
        # Has no effect on a request whose end was read.
        self._log.failed(RequestCancelled())
        place.let_go()


class RequestLog:
    """The one closing record of a request (contract OLOG-2, OLOG-4, OLOG-5)."""

    def __init__(self, log: Log, request_id: int, received_monotonic: float) -> None:
        self._log = log
        self._request_id = request_id
        self._received_monotonic = received_monotonic
        self._closed = False

    def done(self, finished: Finished) -> None:
        self._closed = True
        self._warn_of_fallback(finished.tool_calls)
        usage, timings = finished.usage, finished.timings
        intervals = max(usage.output_tokens - 1, 0)
        rate = intervals / timings.generation_seconds if timings.generation_seconds > 0 else 0.0
        self._log.info(
            "request_done",
            id=self._request_id,
            finish=finished.reason,
            prompt_tokens=usage.prompt_tokens,
            cache=_cache_text(usage),
            output_tokens=usage.output_tokens,
            tokens_per_second=rate,
            **_draft_fields(finished.speculation),
            queue_seconds=timings.queue_seconds,
            prompt_seconds=timings.prompt_seconds,
            seconds=self._seconds(),
        )

    def failed(self, error: RequestError) -> None:
        if self._closed:
            return
        self._closed = True
        self._log.warning("request_ended", id=self._request_id, code=error.code, seconds=self._seconds())

    def parser_failed(self, error: BaseException) -> None:
        self._log.error("output_parser_failed", id=self._request_id, exc_info=error)

    def _warn_of_fallback(self, report: ToolCallReport | None) -> None:
        """The classification and nothing of the text (contract TOOL-13)."""
        if report is not None and report.fallback_reason != "none":
            self._log.warning("tool_calls_as_text", id=self._request_id, reason=report.fallback_reason)

    def _seconds(self) -> float:
        return time.monotonic() - self._received_monotonic


def _draft_fields(speculation: Speculation | None) -> dict[str, int]:
    """Nothing where nothing was drafted."""
    if speculation is None or not speculation.drafted_tokens:
        return {}
    return {"drafted_tokens": speculation.drafted_tokens, "accepted_tokens": speculation.accepted_tokens}


def _cache_text(usage: Usage) -> str:
    """Contract OLOG-6."""
    percent = round(100 * usage.cached_tokens / usage.prompt_tokens) if usage.prompt_tokens else 0
    return f"{usage.cached_tokens} ({percent}%)"
