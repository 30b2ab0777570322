"""The three protocols of this distribution under the suite for protocols, each with its official client."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Callable
from typing import Any

import anthropic as anthropic_sdk
import msgspec
import openai
import pytest
from ninfer_protocols import anthropic, openai_chat, openai_responses

from ninfer_core.api import (
    ErrorCategory,
    Generation,
    GenerationEvent,
    GenerationFailed,
    GenerationRequest,
    GenerationService,
    ProtocolContext,
    ProtocolRoutes,
)
from ninfer_core.testing.event_streams import data_payloads, named_events
from ninfer_core.testing.protocol import ProtocolConformance, ProtocolSubject, check_frame

MODEL = "scripted-model"
OPENAI = {
    ErrorCategory.INVALID_REQUEST: 400,
    ErrorCategory.AUTHENTICATION: 401,
    ErrorCategory.NOT_FOUND: 404,
    ErrorCategory.TOO_LARGE: 413,
    ErrorCategory.OVERLOADED: 429,
    ErrorCategory.TIMEOUT: 503,
    ErrorCategory.UNAVAILABLE: 503,
    ErrorCategory.CANCELLED: 499,
    ErrorCategory.INTERNAL: 500,
    ErrorCategory.STARTUP: 500,
}
ANTHROPIC = OPENAI | {ErrorCategory.OVERLOADED: 529, ErrorCategory.TIMEOUT: 504}


def ask(prompt: str) -> dict[str, Any]:
    return {"model": MODEL, "max_tokens": 64, "messages": [{"role": "user", "content": prompt}]}


def openai_client(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0, timeout=20)


def error_code(body: Any) -> str:
    code: str = body["error"]["code"]
    return code


def chat_text(stream: str) -> str:
    choices = [choice for chunk in data_payloads(stream) if "choices" in chunk for choice in chunk["choices"]]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def chat_error(stream: str) -> str | None:
    last = data_payloads(stream)[-1]
    return error_code(last) if isinstance(last, dict) and "error" in last else None


def chat_sdk(url: str, prompt: str) -> str:
    with openai_client(url) as client:
        stream = client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": prompt}], stream=True
        )
        return "".join(choice.delta.content or "" for chunk in stream for choice in chunk.choices)


class TestChatCompletions(ProtocolConformance):
    subject = ProtocolSubject(
        build=openai_chat.ninfer_protocol_build,
        lower=openai_chat.ninfer_protocol_lower,
        path="/v1/chat/completions",
        request=ask,
        stream={"stream": True},
        text=lambda answer: answer["choices"][0]["message"]["content"],
        stream_text=chat_text,
        stream_ends=lambda stream: data_payloads(stream)[-1] == "[DONE]",
        stream_error=chat_error,
        error_code=error_code,
        statuses=OPENAI,
        sdk_text=chat_sdk,
    )


def messages_error(stream: str) -> str | None:
    name, payload = named_events(stream)[-1]
    return error_code(payload) if name == "error" else None


def messages_sdk(url: str, prompt: str) -> str:
    with (
        anthropic_sdk.Anthropic(base_url=url, api_key="k", max_retries=0, timeout=20) as client,
        client.messages.stream(model=MODEL, max_tokens=64, messages=[{"role": "user", "content": prompt}]) as stream,
    ):
        return "".join(stream.text_stream)


class TestMessages(ProtocolConformance):
    subject = ProtocolSubject(
        build=anthropic.ninfer_protocol_build,
        lower=anthropic.ninfer_protocol_lower,
        path="/v1/messages",
        request=ask,
        stream={"stream": True},
        text=lambda answer: "".join(block["text"] for block in answer["content"] if block["type"] == "text"),
        stream_text=lambda stream: "".join(
            payload["delta"].get("text", "") for name, payload in named_events(stream) if name == "content_block_delta"
        ),
        stream_ends=lambda stream: named_events(stream)[-1][0] == "message_stop",
        stream_error=messages_error,
        error_code=error_code,
        statuses=ANTHROPIC,
        sdk_text=messages_sdk,
    )


def responses_error(stream: str) -> str | None:
    name, payload = named_events(stream)[-1]
    return payload["response"]["error"]["code"] if name == "response.failed" else None


def responses_sdk(url: str, prompt: str) -> str:
    with openai_client(url) as client, client.responses.stream(model=MODEL, input=prompt) as stream:
        return stream.get_final_response().output_text


class TestResponses(ProtocolConformance):
    subject = ProtocolSubject(
        build=openai_responses.ninfer_protocol_build,
        lower=openai_responses.ninfer_protocol_lower,
        path="/v1/responses",
        request=lambda prompt: {"model": MODEL, "input": prompt},
        stream={"stream": True},
        text=lambda answer: answer["output"][-1]["content"][0]["text"],
        stream_text=lambda stream: "".join(
            payload["delta"] for name, payload in named_events(stream) if name == "response.output_text.delta"
        ),
        stream_ends=lambda stream: named_events(stream)[-1][0] == "response.completed",
        stream_error=responses_error,
        error_code=error_code,
        statuses=OPENAI,
        broken_code="server_error",
        sdk_text=responses_sdk,
    )


class Careless:
    """A service as a protocol that forgets things would use it."""

    def __init__(self, service: GenerationService) -> None:
        self._service = service
        self.model = service.model

    async def offload(self, work: Callable[[], Any]) -> Any:
        return work()

    async def start(self, request: GenerationRequest, scope: Any) -> Unending:
        return Unending(await self._service.start(request, None))

    async def count_tokens(self, request: GenerationRequest) -> int:
        return await self._service.count_tokens(request)


class Unending:
    """Takes a failure for an end, and closes nothing."""

    def __init__(self, generation: Generation) -> None:
        self.resolved = generation.resolved
        self._generation = generation

    async def __aiter__(self) -> AsyncIterator[GenerationEvent]:
        try:
            async for event in self._generation:
                yield event
        except GenerationFailed:
            return

    async def aclose(self) -> None:
        return


def careless_build(context: ProtocolContext) -> ProtocolRoutes:
    return openai_chat.ninfer_protocol_build(
        context=msgspec.structs.replace(context, service=Careless(context.service))
    )


@pytest.mark.parametrize(
    "name",
    [
        "test_a_whole_answer_has_the_text_and_closes_its_generation",
        "test_the_service_is_given_the_scope_of_the_request",
        "test_large_bodies_are_understood_away_from_the_event_loop",
        "test_a_failure_in_a_stream_is_told_and_nothing_ends_well",
    ],
)
def test_the_suite_finds_a_careless_protocol(name: str) -> None:
    suite = ProtocolConformance()
    suite.subject = dataclasses.replace(TestChatCompletions.subject, build=careless_build)
    with pytest.raises(AssertionError):
        getattr(suite, name)()


@pytest.mark.parametrize(
    "frame",
    ["data: {", "data: 1\nid: 2", "data: 1\ndata: 2", "event: x", "data: 1\u2028", ": a\ndata: 1", "", "data: 1\x85"],
    ids=repr,
)
def test_the_suite_knows_bad_frames(frame: str) -> None:
    with pytest.raises((AssertionError, ValueError)):
        check_frame(frame)


@pytest.mark.parametrize("frame", [": c", ": a\n: b", "data: [DONE]", "event: x\ndata: {}"])
def test_and_good_ones(frame: str) -> None:
    check_frame(frame)
