"""The generation service: from a neutral request to the engine and its events back, within the server's bounds."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

from ninfer_core.api.errors import (
    ContextLengthExceeded,
    GenerationFailed,
    RequestError,
    RequestQueueTimeout,
    ServerOverloaded,
    ServiceUnavailable,
)
from ninfer_core.api.frontend import Frontend, OutputParser
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.api.request import GenerationRequest, MediaPart
from ninfer_core.api.service import Result, Scope, ServedModel
from ninfer_core.engine.messages import Submit
from ninfer_core.engine.thinking_budget import check_thinking_budget
from ninfer_core.serving.engine_link import EngineLink
from ninfer_core.serving.exchange import exchange_end
from ninfer_core.serving.generation import EngineGeneration, RequestLog
from ninfer_core.serving.output_stage import OutputStage
from ninfer_core.serving.places import Place, Places
from ninfer_core.serving.preparation import EncodedPrompt, Preparation, plugin_failure
from ninfer_core.serving.request_checks import check_request
from ninfer_core.serving.sampling import PlanSampling, SamplingSource
from ninfer_core.telemetry import Log


class EngineService:
    """GenerationService over an engine link. Belongs to one event loop."""

    def __init__(
        self,
        plan: ExecutionPlan,
        frontend: Frontend,
        link: EngineLink,
        model_id: str,
        log: Log,
        *,
        sampling: SamplingSource | None = None,
    ) -> None:
        self.model = ServedModel(
            model_id=model_id,
            max_context=plan.capacities.max_context,
            created_unix_seconds=int(time.time()),
            capabilities=plan.template,
        )
        self._plan = plan
        self._link = link
        self._log = log
        self._frontend = frontend
        self._sampling = sampling or PlanSampling(plan)
        self._preparation = Preparation(frontend, plan.thinking, most_tokens=plan.capacities.max_context)
        # Counting may be asked for prompts of any length, so it has a thread of its own.
        self._counting_preparation = Preparation(frontend, plan.thinking, max_threads=1)
        self._places = Places(plan.capacities.max_concurrency + plan.capacities.max_pending_requests)
        self._counting = Places(self._places.capacity)
        self._offloaded = Places(self._places.capacity)
        self._request_ids = itertools.count(1)

    @property
    def open_requests(self) -> int:
        """Places that are taken now."""
        return self._places.taken

    def is_available(self) -> bool:
        return self._link.failure is None

    async def offload(self, work: Callable[[], Result]) -> Result:
        place = self._take(self._offloaded)
        try:
            # The thread holds the place as well: it may outlive its request.
            place.hold()
            return await self._preparation.run(work, on_done=place.let_go)
        finally:
            place.let_go()

    async def start(self, request: GenerationRequest, scope: Scope | None) -> EngineGeneration:
        received = time.monotonic()
        request_id = next(self._request_ids)
        try:
            place = self._take(self._places)
            self._hold_until_sent(place, scope)
        except ServerOverloaded as error:
            self._log.warning("request_rejected", id=request_id, code=error.code)
            raise
        try:
            return await self._start(request, request_id, received, place)
        except RequestError as error:
            self._log.info("request_rejected", id=request_id, code=error.code, seconds=time.monotonic() - received)
            raise
        finally:
            place.let_go()

    def _hold_until_sent(self, place: Place, scope: Scope | None) -> None:
        """A place counts until the client has taken its answer (contract EXEC-4), however the protocol makes one."""
        end = None if scope is None else exchange_end(scope)
        if end is not None:
            place.hold()
            end.add(place.let_go)

    async def count_tokens(self, request: GenerationRequest) -> int:
        check_request(request)
        place = self._take(self._counting)
        try:
            prompt = await self._prepare(self._counting_preparation, request, time.monotonic(), place)
        except RequestQueueTimeout as error:
            raise RequestQueueTimeout(waited_ms=error.waited_ms, counting=True) from None
        finally:
            place.let_go()
        return prompt.tokens

    async def close(self) -> None:
        await self._preparation.close()
        await self._counting_preparation.close()

    def _take(self, places: Places) -> Place:
        if self._link.failure is not None:
            raise ServiceUnavailable(self._link.failure)
        return places.take()

    async def _start(
        self, request: GenerationRequest, request_id: int, received: float, place: Place
    ) -> EngineGeneration:
        check_request(request)
        self._refuse_hopeless(request)
        prompt = self._checked(await self._prepare(self._preparation, request, received, place))
        submit = self._submit(request, prompt, request_id, received)
        parser = self._parser(request)
        # Two parties hold the place from here on: the engine, and whoever reads the answer.
        place.hold()
        try:
            events = self._link.submit(submit, on_end=place.let_go)
        except BaseException:
            place.let_go()
            raise
        place.hold()
        self._log.info("request_started", id=request_id, prompt_tokens=prompt.tokens)
        return EngineGeneration(
            prompt.resolved,
            events,
            OutputStage(parser),
            RequestLog(self._log, request_id, received),
            lambda: self._link.cancel(request_id),
            place,
        )

    async def _prepare(
        self, preparation: Preparation, request: GenerationRequest, received: float, place: Place
    ) -> EncodedPrompt:
        _refuse_media(request)
        if request.tools and not self.model.capabilities.tools:
            raise RequestError(
                "this model's chat template shows no tools, so it could not call any; send none",
                code="tools_not_supported",
                param="tools",
            )
        # The thread holds the place as well: it may outlive its request.
        place.hold()
        try:
            return await preparation.prepare(
                request,
                received_monotonic=received,
                deadline_monotonic=self._deadline(received),
                on_done=place.let_go,
            )
        except GenerationFailed as error:
            self._log.error("prompt_failed", exc_info=error)
            raise

    def _parser(self, request: GenerationRequest) -> OutputParser:
        try:
            return self._frontend.output_format.parser(request.tools, tolerant=self._plan.tolerant_tool_calls)
        except (Exception, SystemExit) as error:
            self._log.error("output_parser_failed", exc_info=error)
            raise plugin_failure("gave no parser for this request's answer", error) from error

    def _deadline(self, received: float) -> float:
        """Of preparation and the wait for admission together (contract EXEC-5)."""
        return received + self._plan.capacities.pending_timeout_ms / 1000

    def _refuse_hopeless(self, request: GenerationRequest) -> None:
        """Rendering and tokenizing megabytes takes a thread for seconds, only to count what cannot fit. No template
        shows a message without a token."""
        fewest = self._frontend.fewest_tokens(sum(len(message.text.strip()) for message in request.messages))
        fewest = max(fewest, len(request.messages))
        if fewest > self.model.max_context:
            raise ContextLengthExceeded(prompt_tokens=fewest, max_context=self.model.max_context, at_least=True)

    def _checked(self, prompt: EncodedPrompt) -> EncodedPrompt:
        """A prompt of exactly the ceiling fits; it just leaves no room for an answer (contract MEDIA-2)."""
        if prompt.tokens > self.model.max_context:
            raise ContextLengthExceeded(prompt_tokens=prompt.tokens, max_context=self.model.max_context)
        return prompt

    def _submit(self, request: GenerationRequest, prompt: EncodedPrompt, request_id: int, received: float) -> Submit:
        limit = request.max_output_tokens
        if limit is None:
            limit = self._plan.capacities.default_max_tokens
        return Submit(
            request_id=request_id,
            prompt=prompt.token_ids,
            initial_channel=prompt.initial_channel,
            sampling=self._sampling(request, prompt),
            # The context is the tighter bound from here on: the engine clips exactly and says which one it was.
            max_output_tokens=min(limit, self.model.max_context),
            stop=request.stop,
            stop_channels=request.stop_channels,
            received_monotonic=received,
            deadline_monotonic=self._deadline(received),
            thinking_budget=self._thinking_budget(request, prompt, limit),
        )

    def _thinking_budget(self, request: GenerationRequest, prompt: EncodedPrompt, limit: int) -> int | None:
        """The request's or the server's, for prompts that leave thinking open (contract TMPL-8, 10, 14)."""
        asked = request.thinking_budget
        budget = self._plan.thinking.thinking_budget if asked is None else asked
        if budget is None or prompt.initial_channel != "reasoning":
            return None
        check_thinking_budget(
            budget,
            control_tokens=len(self._frontend.thinking_control_ids),
            limit=min(limit, self.model.max_context - prompt.tokens),
        )
        return budget


def _refuse_media(request: GenerationRequest) -> None:
    """Before anything is fetched or rendered (contract GEN-22)."""
    if any(isinstance(part, MediaPart) for message in request.messages for part in message.content):
        raise RequestError(
            "this server reads no images or videos: vision is not built yet in this release",
            code="vision_disabled",
            param="messages",
        )
