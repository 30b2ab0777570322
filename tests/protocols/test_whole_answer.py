from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ninfer_core.api import GenerationFailed, GenerationRequest, Message, TextPart, WholeAnswer, whole_answer
from ninfer_core.testing.scripted_service import EventScript, ScriptedService

REQUEST = GenerationRequest(messages=(Message(role="user", content=(TextPart("x"),)),))


def read(script: EventScript, on_text: Any = None) -> tuple[WholeAnswer | None, ScriptedService]:
    service = ScriptedService(script)

    async def run() -> WholeAnswer:
        return await whole_answer(await service.start(REQUEST, None), on_text)

    try:
        return asyncio.run(run()), service
    except GenerationFailed:
        return None, service


def test_channels_calls_and_end_are_told_apart() -> None:
    seen: list[tuple[str, str]] = []
    script = EventScript(
        pieces=[("reasoning", "a"), ("content", "b"), ("reasoning", "c"), ("content", "d")],
        calls=[("f", {"x": 1}), ("g", {})],
    )
    answer, service = read(script, lambda channel, text: seen.append((channel, text)))
    assert answer is not None
    assert (answer.reasoning, answer.content) == ("ac", "bd")
    assert [(call.index, call.name) for call in answer.calls] == [(0, "f"), (1, "g")]
    assert answer.finished.reason == "stop_token"
    assert seen == script.pieces
    assert service.open_generations == 0


def test_a_failure_closes_the_generation() -> None:
    answer, service = read(EventScript(failure=GenerationFailed("broken")))
    assert answer is None and service.open_generations == 0


def test_so_does_a_reader_that_fails() -> None:
    def refuse(channel: str, text: str) -> None:
        raise ZeroDivisionError

    service = ScriptedService(EventScript())

    async def run() -> None:
        await whole_answer(await service.start(REQUEST, None), refuse)

    with pytest.raises(ZeroDivisionError):
        asyncio.run(run())
    assert service.open_generations == 0
