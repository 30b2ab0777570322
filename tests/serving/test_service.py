"""The generation service over an inline engine, without HTTP."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Awaitable, Callable

import pytest

from ninfer_core.api.errors import ContextLengthExceeded, RequestError, ServerOverloaded, ServiceUnavailable
from ninfer_core.api.request import GenerationRequest, MediaPart, Message, SamplingOptions, TextPart
from ninfer_core.api.service import Admitted, Finished
from ninfer_core.serving.exchange import exchange_scope
from ninfer_core.serving.inline_link import InlineLink
from ninfer_core.serving.service import EngineService
from ninfer_core.telemetry import create_log
from ninfer_core.testing.simulated_frontend import SimulatedFrontend
from ninfer_core.testing.simulated_plan import simulated_plan
from ninfer_core.testing.simulated_program import SimulatedProgram, simulated_program


def ask(characters: int = 5, max_output_tokens: int | None = 8) -> GenerationRequest:
    """A prompt of `characters` and the 6 of its role, one token each."""
    return GenerationRequest(
        messages=(Message(role="user", content=(TextPart("x" * characters),)),),
        sampling=SamplingOptions(seed=1),
        max_output_tokens=max_output_tokens,
    )


def with_service(
    exercise: Callable[[EngineService, InlineLink], Awaitable[None]], *, slow_seconds: float = 0.0, **capacities: int
) -> None:
    async def run() -> None:
        plan = simulated_plan(**capacities)
        frontend, log = SimulatedFrontend(), create_log("off")
        program = simulated_program(plan)
        _slow_down(program, slow_seconds)
        link = InlineLink(plan, frontend, lambda on_phase: program, log)
        await link.start(lambda name, seconds: None)
        service = EngineService(plan, frontend, link, "name", log)
        await exercise(service, link)
        await service.close()
        await link.stop()
        assert service.open_requests == 0

    asyncio.run(run())


def _slow_down(program: SimulatedProgram, seconds: float) -> None:
    unit = program._unit

    def slow_unit(kind: str) -> None:
        time.sleep(seconds)
        unit(kind)

    program._unit = slow_unit  # type: ignore[method-assign]


@pytest.mark.contract("GEN-27", "OBS-4")
def test_events_come_in_order_and_the_place_is_free_once_closed() -> None:
    async def exercise(service: EngineService, link: InlineLink) -> None:
        generation = await service.start(ask(), None)
        events = [event async for event in generation]
        assert isinstance(events[0], Admitted) and isinstance(events[-1], Finished)
        assert events[-1].usage.prompt_tokens == 11 and generation.resolved.enable_thinking is not None
        assert service.open_requests == 1, "a result that is not released holds its place"
        await generation.aclose()
        await generation.aclose()
        assert service.open_requests == 0

    with_service(exercise)


@pytest.mark.contract("EXEC-4")
def test_unread_results_count_towards_the_capacity() -> None:
    async def exercise(service: EngineService, link: InlineLink) -> None:
        held = [await service.start(ask(), None) for _ in range(2)]
        with pytest.raises(ServerOverloaded):
            await service.start(ask(), None)
        for generation in held:
            await generation.aclose()
        while service.open_requests:
            await asyncio.sleep(0.001)
        await (await service.start(ask(), None)).aclose()
        while service.open_requests:
            await asyncio.sleep(0.001)

    with_service(exercise, max_concurrency=1, max_pending_requests=1)


def test_work_of_protocols_runs_on_a_thread_and_is_bounded() -> None:
    async def exercise(service: EngineService, link: InlineLink) -> None:
        assert await service.offload(threading.get_ident) != threading.get_ident()
        with pytest.raises(ZeroDivisionError):
            await service.offload(lambda: 1 // 0)
        may_end = threading.Event()
        waiting = [asyncio.create_task(service.offload(lambda: may_end.wait(30))) for _ in range(2)]
        await asyncio.sleep(0)
        # Nobody waits for this one any more; its thread, or its place in the queue, is taken all the same.
        started = waiting[0]
        await asyncio.sleep(0.05)
        started.cancel()
        await asyncio.sleep(0.05)
        with pytest.raises(ServerOverloaded):
            await asyncio.wait_for(service.offload(lambda: None), 10)
        may_end.set()
        assert await waiting[1]
        while True:
            try:
                await service.offload(lambda: None)
                break
            except ServerOverloaded:
                await asyncio.sleep(0.01)

    with_service(exercise, max_concurrency=1, max_pending_requests=1)


@pytest.mark.contract("EXEC-4")
def test_a_place_counts_until_the_exchange_of_its_scope_is_over() -> None:
    """Whatever task, and whatever context, starts the generation."""

    async def exercise(service: EngineService, link: InlineLink) -> None:
        scope: dict[str, object] = {}
        with exchange_scope(scope):
            starting = service.start(ask(), scope)
            generation = await asyncio.create_task(starting, context=contextvars.Context())
            async for _ in generation:
                pass
            await generation.aclose()
            await asyncio.sleep(0.05)
            assert service.open_requests == 1
        while service.open_requests:
            await asyncio.sleep(0.001)

    with_service(exercise)


@pytest.mark.contract("MEDIA-2")
def test_a_prompt_of_exactly_the_context_fits() -> None:
    async def exercise(service: EngineService, link: InlineLink) -> None:
        generation = await service.start(ask(characters=250), None)
        *_, finished = [event async for event in generation]
        await generation.aclose()
        assert isinstance(finished, Finished)
        assert (finished.reason, finished.usage.output_tokens) == ("context_capacity", 0)
        with pytest.raises(ContextLengthExceeded):
            await service.start(ask(characters=251), None)

    with_service(exercise, max_context=256)


@pytest.mark.contract("GEN-22")
def test_counting_runs_no_model_and_refuses_media() -> None:
    async def exercise(service: EngineService, link: InlineLink) -> None:
        assert await service.count_tokens(ask(characters=1000)) == 1006
        image = MediaPart(modality="image", source="data:,")
        with pytest.raises(RequestError) as raised:
            await service.count_tokens(GenerationRequest(messages=(Message(role="user", content=(image,)),)))
        assert raised.value.code == "vision_disabled"

    with_service(exercise)


def test_a_stopped_engine_ends_what_is_open_and_takes_nothing_new() -> None:
    async def exercise(service: EngineService, link: InlineLink) -> None:
        generation = await service.start(ask(max_output_tokens=100), None)
        await link.stop()
        with pytest.raises(RequestError) as raised:
            async for _ in generation:
                pass
        assert raised.value.code == "service_unavailable"
        await generation.aclose()
        assert not service.is_available()
        with pytest.raises(ServiceUnavailable):
            await service.start(ask(), None)
        with pytest.raises(ServiceUnavailable):
            await service.count_tokens(ask())

    with_service(exercise, slow_seconds=0.05)
