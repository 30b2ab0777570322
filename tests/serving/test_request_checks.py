"""What a protocol without rules of its own may ask for, and what becomes of it."""

from __future__ import annotations

import asyncio
import io
import time
from typing import Any

import msgspec
import pytest

from ninfer_core.api.errors import ErrorCategory, GenerationFailed, InvalidPrompt, RequestError, RequestQueueTimeout
from ninfer_core.api.frontend import PreparedPrompt, ThinkingDefaults
from ninfer_core.api.request import MAX_TOOLS, GenerationRequest, Message, SamplingOptions, TextPart, ToolDefinition
from ninfer_core.api.service import Finished
from ninfer_core.api.whole_answer import whole_answer
from ninfer_core.serving.inline_link import InlineLink
from ninfer_core.serving.preparation import encode_prompt
from ninfer_core.serving.request_checks import MAX_TOOL_BYTES, check_request, check_tools
from ninfer_core.serving.service import EngineService
from ninfer_core.telemetry import create_log
from ninfer_core.testing.simulated_frontend import SimulatedFrontend
from ninfer_core.testing.simulated_plan import simulated_plan
from ninfer_core.testing.simulated_program import simulated_program

HELLO = GenerationRequest(messages=(Message(role="user", content=(TextPart("hello"),)),), max_output_tokens=4)
NAN = float("nan")

TOOL = ToolDefinition(name="f", parameters={}, definition={"name": "f"})

WRONG: list[dict[str, Any]] = [
    {"max_output_tokens": -1},
    {"max_output_tokens": True},
    {"max_output_tokens": 1.5},
    {"thinking_budget": 0},
    {"stop": ("",)},
    {"stop": ("a", "")},
    {"stop": ("\ud800",)},
    {"stop": (b"x",)},
    {"stop_channels": ("elsewhere",)},
    {"tools": (TOOL,) * (MAX_TOOLS + 1)},
    {"sampling": SamplingOptions(temperature=NAN)},
    {"sampling": SamplingOptions(temperature=-0.1)},
    {"sampling": SamplingOptions(top_p=1.01)},
    {"sampling": SamplingOptions(min_p=float("inf"))},
    {"sampling": SamplingOptions(top_k=-1)},
    {"sampling": SamplingOptions(presence_penalty=NAN)},
    {"sampling": SamplingOptions(frequency_penalty=-2.5)},
    {"sampling": SamplingOptions(seed=2**63)},
]


def with_(fields: dict[str, Any]) -> GenerationRequest:
    return msgspec.structs.replace(HELLO, **fields)


def serving(exercise: Any, frontend: SimulatedFrontend, *, pending_timeout_ms: int = 30_000) -> None:
    async def run() -> None:
        plan = simulated_plan()
        capacities = msgspec.structs.replace(plan.capacities, pending_timeout_ms=pending_timeout_ms)
        plan = msgspec.structs.replace(plan, capacities=capacities)
        program, log = simulated_program(plan), create_log("off")
        link = InlineLink(plan, frontend, lambda on_phase: program, log)
        await link.start(lambda name, seconds: None)
        service = EngineService(plan, frontend, link, "name", log)
        await exercise(service)
        await service.close()
        await link.stop()
        assert service.open_requests == 0 and program.open_rows == 0

    asyncio.run(run())


@pytest.mark.parametrize("fields", WRONG, ids=str)
def test_what_no_engine_could_do_is_a_typed_error_that_names_the_field(fields: dict[str, Any]) -> None:
    with pytest.raises(RequestError) as caught:
        check_request(with_(fields))
    assert caught.value.category is ErrorCategory.INVALID_REQUEST
    (field,) = fields
    sampled = [name for name in SamplingOptions.__struct_fields__ if field == "sampling" and _said(fields, name)]
    assert caught.value.param == (sampled[0] if sampled else field)


def _said(fields: dict[str, Any], name: str) -> bool:
    return getattr(fields["sampling"], name) is not None


def test_the_bounds_themselves_are_in() -> None:
    for bound in (0, 1, 2):
        sampling = SamplingOptions(temperature=bound, top_p=bound > 0, min_p=float(bound > 0), presence_penalty=bound)
        check_request(with_({"sampling": msgspec.structs.replace(sampling, top_p=float(bound > 0), seed=-(2**63))}))
    check_request(with_({"max_output_tokens": 0, "thinking_budget": 1, "stop": ("x",), "stop_channels": ()}))


def test_the_service_refuses_it_before_the_engine_and_goes_on() -> None:
    async def exercise(service: EngineService) -> None:
        for fields in WRONG:
            with pytest.raises(RequestError):
                await service.start(with_(fields), None)
            with pytest.raises(RequestError):
                await service.count_tokens(with_(fields))
        generation = await service.start(HELLO, None)
        events = [event async for event in generation]
        assert isinstance(events[-1], Finished)
        await generation.aclose()

    serving(exercise, SimulatedFrontend())


class OtherTokenizer(SimulatedFrontend):
    """Has ids that the model does not know."""

    def __init__(self, *token_ids: int) -> None:
        super().__init__()
        self.token_ids = token_ids

    def prepare(
        self, request: GenerationRequest, defaults: ThinkingDefaults, *, most_tokens: int | None = None
    ) -> PreparedPrompt:
        return msgspec.structs.replace(super().prepare(request, defaults), token_ids=self.token_ids)


@pytest.mark.parametrize("token_ids", [(65, -1), (65, 258), (2**40,)])
def test_ids_beyond_the_vocabulary_do_not_leave_the_front(token_ids: tuple[int, ...]) -> None:
    with pytest.raises(InvalidPrompt, match=r"outside 0\.\.257"):
        encode_prompt(OtherTokenizer(*token_ids), HELLO, ThinkingDefaults())
    encoded = encode_prompt(OtherTokenizer(0, 257), HELLO, ThinkingDefaults())
    assert memoryview(encoded.token_ids).cast("i").tolist() == [0, 257] and encoded.tokens == 2


class SlowFrontend(SimulatedFrontend):
    def prepare(
        self, request: GenerationRequest, defaults: ThinkingDefaults, *, most_tokens: int | None = None
    ) -> PreparedPrompt:
        time.sleep(0.3)
        return super().prepare(request, defaults)


@pytest.mark.contract("EXEC-5")
def test_counting_past_the_deadline_speaks_of_counting() -> None:
    async def exercise(service: EngineService) -> None:
        with pytest.raises(RequestQueueTimeout, match="was not counted within"):
            await service.count_tokens(HELLO)
        with pytest.raises(RequestQueueTimeout, match="without being admitted"):
            await service.start(HELLO, None)
        await asyncio.sleep(0.7)

    serving(exercise, SlowFrontend(), pending_timeout_ms=50)


def test_as_many_tools_as_may_be() -> None:
    check_request(with_({"tools": (TOOL,) * MAX_TOOLS}))
    check_tools((TOOL,) * MAX_TOOLS)


@pytest.mark.parametrize("tools", [1, 8])
def test_tools_of_more_bytes_than_a_context_holds(tools: int) -> None:
    size = MAX_TOOL_BYTES // tools
    long = msgspec.structs.replace(TOOL, definition={"description": "x" * size})
    with pytest.raises(RequestError, match=str(MAX_TOOL_BYTES)) as caught:
        check_tools((long,) * tools)
    assert (caught.value.code, caught.value.param) == ("too_many_tools", "tools")


QUOTE = "".join(("what somebody", " wrote"))
"""Not as such in a line of this file, which a traceback shows."""


class Bent(SimulatedFrontend):
    """Fails where `fails` says, as the code of a plugin may."""

    fails = ""
    error: type[BaseException] = KeyError

    def prepare(
        self, request: GenerationRequest, defaults: ThinkingDefaults, *, most_tokens: int | None = None
    ) -> PreparedPrompt:
        if self.fails == "prepare":
            raise self.error(QUOTE)
        return super().prepare(request, defaults)

    def bend_parser(self) -> None:
        whole = self.output_format.parser

        def parser(tools: Any, *, tolerant: bool) -> Any:
            if self.fails == "parser":
                raise self.error(QUOTE)
            made: Any = whole(tools, tolerant=tolerant)
            if self.fails == "push":
                made.push = self._fail
            return made

        self.output_format.parser = parser  # type: ignore[method-assign]

    def _fail(self, output: object) -> None:
        raise self.error(QUOTE)


@pytest.mark.parametrize("fails", ["prepare", "parser", "push"])
@pytest.mark.parametrize("error", [KeyError, SystemExit])
def test_code_of_a_family_that_fails_ends_its_request_alone(fails: str, error: type[BaseException]) -> None:
    stream, asked = io.StringIO(), with_({"sampling": SamplingOptions(seed=1)})

    async def run() -> None:
        plan, frontend, log = simulated_plan(), Bent(), create_log("info", stream)
        program = simulated_program(plan)
        link = InlineLink(plan, frontend, lambda on_phase: program, log)
        await link.start(lambda name, seconds: None)
        service = EngineService(plan, frontend, link, "name", log)
        frontend.bend_parser()
        frontend.fails, frontend.error = fails, error
        with pytest.raises(GenerationFailed) as caught:
            await whole_answer(await service.start(asked, None))
        assert error.__name__ in caught.value.message and QUOTE not in caught.value.message
        frontend.fails = ""
        answer = await whole_answer(await service.start(asked, None))
        assert answer.finished.usage.output_tokens == 4
        await service.close()
        await link.stop()
        assert service.open_requests == 0 and program.open_rows == 0

    asyncio.run(run())
    told = stream.getvalue()
    assert ("prompt_failed" if fails == "prepare" else "output_parser_failed") in told
    assert error.__name__ in told and QUOTE not in told
