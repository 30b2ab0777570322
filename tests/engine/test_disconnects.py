"""Clients of the generation service that go away at any time, on the real program with the tiny random model."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from ninfer_core.api.request import GenerationRequest, Message, SamplingOptions, TextPart
from ninfer_core.api.service import Finished, TextDelta
from ninfer_core.plugins import PluginRegistry
from ninfer_core.program.build import build_program
from ninfer_core.program.contract import OnPhase
from ninfer_core.program.runner import DeviceProgram
from ninfer_core.serving.inline_link import InlineLink
from ninfer_core.serving.service import EngineService
from ninfer_core.telemetry import create_log
from ninfer_core.testing.tiny import tiny_artifact, tiny_plan

CLIENTS = 4


def asks(count: int) -> list[GenerationRequest]:
    draw = random.Random(3)
    return [
        GenerationRequest(
            messages=(Message(role="user", content=(TextPart("x" * draw.choice((1, 20, 60, 100))),)),),
            sampling=SamplingOptions(seed=number, temperature=draw.choice((0.0, 1.0, 2.0)), presence_penalty=0.5),
            max_output_tokens=draw.choice((1, 5, 12, 135)),
            thinking_budget=draw.choice((None, 5, 12)),
        )
        for number in range(count)
    ]


async def read(service: EngineService, request: GenerationRequest, events: int | None) -> tuple[dict[str, str], bool]:
    """Read so many events, or all: -> the text of the channels, and whether it is complete."""
    text, complete = {"reasoning": "", "content": ""}, False
    generation = await service.start(request, None)
    try:
        if events == 0:
            return text, False
        async for event in generation:
            if isinstance(event, TextDelta):
                text[event.channel] += event.text
            complete = isinstance(event, Finished)
            if events is not None and (events := events - 1) == 0:
                break
    finally:
        await generation.aclose()
    return text, complete


async def play(plan: Any, frontend: Any, build: Any, histories: int) -> None:
    programs: list[DeviceProgram] = []

    def built(on_phase: OnPhase) -> DeviceProgram:
        programs.append(build(on_phase))
        return programs[0]

    log = create_log("off")
    link = InlineLink(plan, frontend, built, log)
    await link.start(lambda name, seconds: None)
    service = EngineService(plan, frontend, link, "tiny", log)
    pool, draw = asks(12), random.Random(11)
    alone = [(await read(service, request, None))[0] for request in pool]
    assert len({str(text) for text in alone}) > 8

    async def client() -> None:
        wish, events = draw.randrange(len(pool)), draw.choice((None, None, 0, 1, 2, 5))
        await asyncio.sleep(draw.random() / 50)
        text, complete = await read(service, pool[wish], events)
        assert not complete or text == alone[wish]
        assert all(alone[wish][channel].startswith(text[channel]) for channel in text)

    files = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(histories):
        await asyncio.gather(*(client() for _ in range(CLIENTS)))
    while service.open_requests:
        await asyncio.sleep(0.001)
    assert len(list(Path("/proc/self/fd").iterdir())) == files
    (program,) = programs
    assert program.open_rows == 0
    assert program.pages.free_pages == program.pages.pages
    assert program.slots.free_slots == program.slots.slots
    await service.close()
    await link.stop()


def run(histories: int) -> None:
    torch.set_num_threads(1)
    registry = PluginRegistry.discover()
    (offer,) = [offer for offer in registry.offers("family") if offer.name == "qwen-hybrid"]
    artifact = tiny_artifact()
    plan = tiny_plan(registry, artifact.header, max_context=384, max_concurrency=3, kv_capacity=2 * 384)
    frontend = registry.load(offer).hook.ninfer_family_frontend(header=artifact.header)

    def build(on_phase: OnPhase) -> DeviceProgram:
        with artifact.open_weights() as weights:
            return build_program(plan, artifact.header, weights, registry, torch.device("cpu"), on_phase)

    asyncio.run(play(plan, frontend, build, histories))


@pytest.mark.contract("GEN-28", "EXEC-4")
def test_clients_that_go_away_leave_nothing_behind() -> None:
    run(6)


@pytest.mark.long
def test_a_hundred_and_fifty_times_four_clients() -> None:
    run(150)
