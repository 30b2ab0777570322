from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import msgspec
import pytest
from ninfer_protocols.openai_chat import ninfer_protocol_build

from ninfer_core.api import ProtocolContext, ProtocolRoutes
from ninfer_core.serving.inline_link import InlineLink
from ninfer_core.telemetry import create_log
from ninfer_core.testing.live_server import LiveServer, live_server
from ninfer_core.testing.simulated_frontend import SimulatedFrontend
from ninfer_core.testing.simulated_plan import simulated_plan
from ninfer_core.testing.simulated_program import SimulatedProgram, simulated_program

Serve = Callable[..., LiveServer]


def chat_protocol(context: ProtocolContext) -> list[ProtocolRoutes]:
    return [ninfer_protocol_build(context=context)]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers over the real engine and a simulated program. `slow_seconds` is what each unit of it takes,
    `endless` answers end at their limit only.

    In the end no place may be taken, and no row be open.
    """
    programs: list[SimulatedProgram] = []
    with ExitStack() as stack:

        def start(
            *,
            capacities: dict[str, int] | None = None,
            slow_seconds: float = 0.0,
            columns: int = 1,
            fail_at_unit: int | None = None,
            endless: bool = False,
            pending_timeout_ms: int = 30_000,
            **options: Any,
        ) -> LiveServer:
            plan = simulated_plan(draft_tokens=columns - 1, **(capacities or {}))
            bounds = msgspec.structs.replace(plan.capacities, pending_timeout_ms=pending_timeout_ms)
            plan = msgspec.structs.replace(plan, capacities=bounds)
            frontend = SimulatedFrontend()
            if endless:
                frontend.stop_token_ids = ()
            program = simulated_program(plan, fail_at_unit=fail_at_unit)
            if slow_seconds:
                _slow_down(program, slow_seconds)
            programs.append(program)
            link = InlineLink(plan, frontend, lambda on_phase: program, create_log("off"))
            return stack.enter_context(live_server(plan, link, chat_protocol, **options))

        yield start
    assert all(program.open_rows == 0 for program in programs if program.fail_at_unit is None)


def _slow_down(program: SimulatedProgram, seconds: float) -> None:
    unit = program._unit

    def slow_unit(kind: str) -> None:
        time.sleep(seconds)
        unit(kind)

    program._unit = slow_unit  # type: ignore[method-assign]
