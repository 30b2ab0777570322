"""Layers by themselves, where a real connection would be in the way."""

from __future__ import annotations

import asyncio
import io
import json
import threading
import time
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from litestar import Litestar, get
from litestar.response import Stream

from ninfer_core.api import (
    GenerationRequest,
    Message,
    NinferError,
    PreparedPrompt,
    RequestError,
    StartupError,
    TextPart,
    ThinkingDefaults,
    WireError,
)
from ninfer_core.serving.asgi import Application, Receive, Scope, Send
from ninfer_core.serving.disconnect import DisconnectLayer
from ninfer_core.serving.envelope import EnvelopeLayer
from ninfer_core.serving.errors import ErrorForms
from ninfer_core.serving.places import Places
from ninfer_core.serving.preparation import Preparation
from ninfer_core.telemetry import create_log
from ninfer_core.testing.simulated_frontend import SimulatedFrontend


class Form:
    """A protocol that answers every error with its own name."""

    def __init__(self, name: str, *prefixes: str) -> None:
        self.name = name
        self.path_prefixes = prefixes

    def handlers(self) -> list[Any]:
        return []

    def wire_error(self, error: NinferError) -> WireError:
        return WireError(status=418, headers={"x-form": self.name}, body={"form": self.name, "code": error.code})


def scope(path: str = "/v1/x", headers: list[tuple[bytes, bytes]] | None = None) -> Scope:
    return {"type": "http", "method": "POST", "path": path, "headers": headers or []}


class Exchange:
    """A client by hand: messages to give, messages that came."""

    def __init__(self, *pieces: bytes) -> None:
        self.incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        for index, piece in enumerate(pieces):
            more = index + 1 < len(pieces)
            self.incoming.put_nowait({"type": "http.request", "body": piece, "more_body": more})
        self.sent: list[Any] = []

    async def receive(self) -> Any:
        return await self.incoming.get()

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    def go_away(self) -> None:
        self.incoming.put_nowait({"type": "http.disconnect"})


def test_the_longest_prefix_owns_a_path() -> None:
    forms = ErrorForms([Form("a", "/v1"), Form("b", "/v1/messages"), Form("c", "/v1/messages")])
    error = RequestError("x")
    for path, owner in [("/v1/messages", "b"), ("/v1/messages/count", "b"), ("/v1/messagesx", "a"), ("/else", "a")]:
        assert forms.wire_error(path, error).body["form"] == owner
    turned = ErrorForms([Form("b", "/v1/messages"), Form("a", "/v1")])
    assert turned.wire_error("/else", error).body["form"] == "a"
    with pytest.raises(StartupError):
        ErrorForms([])


def test_a_bug_is_an_internal_error_and_the_log_keeps_the_secret() -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError(secret)

    secret = "".join(["what ", "a client ", "sent"])
    stream = io.StringIO()
    exchange = Exchange(b"")
    layer = EnvelopeLayer(broken, ErrorForms([Form("a")]), create_log("info", stream))
    asyncio.run(layer(scope(), exchange.receive, exchange.send))
    start, answer = exchange.sent
    assert json.loads(answer["body"]) == {"form": "a", "code": "internal_error"}
    request_id = dict(start["headers"])[b"x-request-id"].decode()
    assert f"request={request_id}" in stream.getvalue() and "internal_error" in stream.getvalue()
    assert secret not in stream.getvalue()


def test_an_error_after_the_status_cuts_the_answer() -> None:
    async def half(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RequestError("too late")

    stream = io.StringIO()
    exchange = Exchange(b"")
    layer = EnvelopeLayer(half, ErrorForms([Form("a")]), create_log("info", stream))
    asyncio.run(layer(scope(), exchange.receive, exchange.send))
    assert len(exchange.sent) == 1
    assert "answer_cut" in stream.getvalue()


@pytest.mark.parametrize(
    ("raised", "event"), [(RequestError("too late"), "answer_cut code=invalid_request"), (KeyError("x"), "KeyError")]
)
def test_what_ends_a_stream_is_told_apart_from_its_wrapping(raised: Exception, event: str) -> None:
    """The framework wraps what is raised after the status is out."""

    @get("/stream")
    async def stream_handler() -> Stream:
        async def pieces() -> AsyncIterator[str]:
            yield "a"
            raise raised

        return Stream(pieces())

    framework = Litestar([stream_handler], openapi_config=None, logging_config=None)
    stream = io.StringIO()
    exchange = Exchange(b"")
    layer = EnvelopeLayer(cast("Application", framework), ErrorForms([Form("a")]), create_log("info", stream))
    asyncio.run(layer({**scope("/stream"), "method": "GET", "query_string": b""}, exchange.receive, exchange.send))
    text = stream.getvalue()
    assert event in text and "LitestarException" not in text
    assert ("request_broken" in text) == isinstance(raised, KeyError)


def test_a_handler_that_would_end_the_process_ends_its_request() -> None:
    """Raised out of a task, it would end the event loop."""

    @get("/quit")
    async def quit_handler() -> str:
        raise SystemExit(3)

    @get("/quit-in-a-thread", sync_to_thread=True)
    def quit_in_a_thread() -> str:
        raise SystemExit(3)

    framework = Litestar([quit_handler, quit_in_a_thread], openapi_config=None, logging_config=None)
    stream = io.StringIO()
    inner = DisconnectLayer(cast("Application", framework))
    layer = EnvelopeLayer(inner, ErrorForms([Form("a")]), create_log("info", stream))

    async def run() -> None:
        for path in ("/quit", "/quit-in-a-thread"):
            exchange = Exchange(b"")
            asked = {**scope(path), "method": "GET", "query_string": b""}
            await asyncio.wait_for(layer(asked, exchange.receive, exchange.send), 10)
            assert exchange.sent[0]["status"] == 418

    asyncio.run(run())
    assert stream.getvalue().count("request_broken") == 2 and "SystemExit" in stream.getvalue()


@pytest.mark.contract("GEN-15")
def test_an_id_of_another_protocol_is_left_alone() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"request-id", b"r1")]})
        await send({"type": "http.response.body", "body": b""})

    exchange = Exchange(b"")
    asyncio.run(
        EnvelopeLayer(app, ErrorForms([Form("a")]), create_log("off"))(scope(), exchange.receive, exchange.send)
    )
    assert exchange.sent[0]["headers"] == [(b"request-id", b"r1")]


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": message["body"]})


@pytest.mark.contract("GEN-18")
def test_a_client_that_goes_away_cancels_the_application() -> None:
    async def run() -> None:
        ended: list[str] = []

        async def waits(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise

        exchange = Exchange(b"")
        task = asyncio.create_task(DisconnectLayer(waits)(scope(), exchange.receive, exchange.send))
        await asyncio.sleep(0.01)
        exchange.go_away()
        await asyncio.wait_for(task, 1)
        assert ended == ["cancelled"] and not exchange.sent

    asyncio.run(run())


def test_what_an_application_does_after_its_answer_is_not_cancelled() -> None:
    async def run() -> None:
        done: list[str] = []

        async def tidies(scope: Scope, receive: Receive, send: Send) -> None:
            await echo(scope, receive, send)
            await asyncio.sleep(0.05)
            done.append("tidied")

        exchange = Exchange(b"x")
        task = asyncio.create_task(DisconnectLayer(tidies)(scope(), exchange.receive, exchange.send))
        await asyncio.sleep(0.01)
        exchange.go_away()
        await asyncio.wait_for(task, 1)
        assert done == ["tidied"]

    asyncio.run(run())


def test_a_client_that_takes_nothing_is_given_up() -> None:
    async def run() -> None:
        async def never(message: Any) -> None:
            await asyncio.sleep(60)

        exchange = Exchange(b"x")
        with pytest.raises(RequestError) as raised:
            await DisconnectLayer(echo, stall_seconds=0.02)(scope(), exchange.receive, never)
        assert raised.value.code == "client_disconnected"

    asyncio.run(run())


def test_a_place_is_free_when_the_last_holder_lets_go() -> None:
    places = Places(1)
    place = places.take()
    place.hold()
    place.let_go()
    with pytest.raises(RequestError):
        places.take()
    place.let_go()
    assert places.taken == 0
    places.take()


class SlowFrontend(SimulatedFrontend):
    """Prepares until it is told to go on."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()

    def prepare(
        self, request: GenerationRequest, defaults: ThinkingDefaults, *, most_tokens: int | None = None
    ) -> PreparedPrompt:
        assert self.go_on.wait(10)
        return super().prepare(request, defaults)


@pytest.mark.contract("EXEC-4", "EXEC-5")
def test_the_deadline_covers_preparation_and_the_thread_is_waited_for() -> None:
    async def run() -> None:
        frontend = SlowFrontend()
        preparation = Preparation(frontend, ThinkingDefaults())
        over: list[bool] = []
        now = time.monotonic()
        request = GenerationRequest(messages=(Message(role="user", content=(TextPart("x"),)),))
        with pytest.raises(RequestError) as raised:
            await preparation.prepare(
                request,
                received_monotonic=now,
                deadline_monotonic=now + 0.05,
                on_done=lambda: over.append(True),
            )
        assert raised.value.code == "request_queue_timeout"
        await asyncio.sleep(0.05)
        assert not over, "the thread is still at work"
        frontend.go_on.set()
        await preparation.close()
        await asyncio.sleep(0)
        assert over == [True]

    asyncio.run(run())
