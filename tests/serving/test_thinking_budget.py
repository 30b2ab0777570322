"""The thinking budget on its way from the plan or the request to the engine and back in the usage."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from ninfer_core.api.errors import ThinkingBudgetCapacityInsufficient
from ninfer_core.api.frontend import ThinkingDefaults
from ninfer_core.api.request import GenerationRequest, Message, SamplingOptions, TemplateOptions, TextPart
from ninfer_core.api.service import Finished, TextDelta, Usage
from ninfer_core.serving.inline_link import InlineLink
from ninfer_core.serving.service import EngineService
from ninfer_core.telemetry import create_log
from ninfer_core.testing.simulated_frontend import CONTROL_IDS, SimulatedFrontend, answer_token
from ninfer_core.testing.simulated_plan import simulated_plan
from ninfer_core.testing.simulated_program import simulated_program

CONTROL = len(CONTROL_IDS)
SEED = next(seed for seed in range(10_000) if all(answer_token(seed, position) < 128 for position in range(32)))
"""An answer that thinks for longer than any budget here."""


def ask(
    *, budget: int | None = None, thinking: bool | None = True, max_output_tokens: int | None = 32
) -> GenerationRequest:
    return GenerationRequest(
        messages=(Message(role="user", content=(TextPart("hello"),)),),
        template=TemplateOptions(enable_thinking=thinking),
        sampling=SamplingOptions(seed=SEED),
        max_output_tokens=max_output_tokens,
        thinking_budget=budget,
    )


def answered(
    request: GenerationRequest, *, default: int | None = None, thinking: bool = True, max_context: int = 256
) -> tuple[str, Usage]:
    """-> reasoning and usage. A request that is refused has reached no unit of the program."""

    async def run() -> tuple[str, Usage]:
        plan = msgspec.structs.replace(
            simulated_plan(max_context=max_context),
            thinking=ThinkingDefaults(enable_thinking=thinking, thinking_budget=default),
        )
        frontend, log, program = SimulatedFrontend(), create_log("off"), simulated_program(plan)
        link = InlineLink(plan, frontend, lambda on_phase: program, log)
        await link.start(lambda name, seconds: None)
        service = EngineService(plan, frontend, link, "name", log)
        try:
            generation = await service.start(request, None)
            events = [event async for event in generation]
            await generation.aclose()
        except ThinkingBudgetCapacityInsufficient:
            assert program.units == 0
            raise
        finally:
            await service.close()
            await link.stop()
        last = events[-1]
        assert isinstance(last, Finished)
        text = (event.text for event in events if isinstance(event, TextDelta) and event.channel == "reasoning")
        return "".join(text), last.usage

    return asyncio.run(run())


@pytest.mark.contract("TMPL-8", "TMPL-12", "OPT-27")
def test_the_server_has_a_budget_for_requests_that_think() -> None:
    reasoning, usage = answered(ask(), default=4)
    assert reasoning.endswith(bytes(CONTROL_IDS[:-1]).decode())
    assert (usage.thinking_budget, usage.model_thinking_tokens, usage.thinking_control_tokens) == (4, 4, CONTROL)
    assert usage.reasoning_tokens == 4 + CONTROL


@pytest.mark.contract("TMPL-8")
def test_requests_that_do_not_think_have_none() -> None:
    _, usage = answered(ask(thinking=False, budget=3), default=4)
    assert (usage.thinking_budget, usage.thinking_control_applied) == (None, False)


@pytest.mark.contract("TMPL-9")
def test_thinking_that_is_off_and_asked_for_has_the_servers() -> None:
    _, usage = answered(ask(thinking=True), default=4, thinking=False)
    assert usage.thinking_control_applied
    _, usage = answered(ask(thinking=None), default=4, thinking=False)
    assert not usage.thinking_control_applied


@pytest.mark.contract("TMPL-10")
def test_a_request_replaces_the_servers() -> None:
    assert answered(ask(budget=7), default=4)[1].model_thinking_tokens == 7
    assert answered(ask(budget=7))[1].model_thinking_tokens == 7
    assert answered(ask())[1].thinking_budget is None


@pytest.mark.contract("TMPL-14")
@pytest.mark.parametrize(
    ("request_", "max_context"),
    [
        (ask(budget=4, max_output_tokens=4 + CONTROL), 256),
        (ask(budget=100, max_output_tokens=None), 11 + 100 + CONTROL),
    ],
    ids=["output", "context"],
)
def test_an_end_that_does_not_fit_never_reaches_the_engine(request_: GenerationRequest, max_context: int) -> None:
    with pytest.raises(ThinkingBudgetCapacityInsufficient, match=f"closing it takes {CONTROL}"):
        answered(request_, max_context=max_context)


@pytest.mark.contract("TMPL-11")
def test_output_that_ends_within_the_budget_needs_no_room_for_the_end() -> None:
    _, usage = answered(ask(budget=20, max_output_tokens=20))
    assert (usage.output_tokens, usage.thinking_control_applied) == (20, False)
