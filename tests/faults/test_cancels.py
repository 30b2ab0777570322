"""A client that goes away in any state of its request: what it held is free within one unit of work."""

from __future__ import annotations

import io
import json
import os
import random
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import httpx
import pytest
from ninfer_models.qwen_hybrid.frontend.frontend import QwenFrontend
from ninfer_protocols.openai_chat import ninfer_protocol_build

from ninfer_core.api import GenerationRequest, PreparedPrompt, ProtocolContext, ProtocolRoutes, ThinkingDefaults
from ninfer_core.serving.preparation import MAX_THREADS
from ninfer_core.telemetry import create_log
from ninfer_core.testing.live_server import LiveServer
from ninfer_core.testing.scripted_server import scripted_server
from ninfer_core.testing.server_process import until

CHAT = "/v1/chat/completions"
UNIT_SECONDS = 0.15
SLACK_SECONDS = 0.6
"""For a machine that has other things to do."""

ANSWERS: list[dict[str, Any]] = [
    {"match": "slow prompt", "content": "x", "prompt_delay_ms": UNIT_SECONDS * 1000},
    {"match": "slow answer", "content": "word " * 200, "delay_ms": UNIT_SECONDS * 1000},
    {"match": "long answer", "chunks": ["x" * 50_000] * 60, "tokens_per_round": 4},
    {"match": "short answer", "content": "word " * 12, "delay_ms": 0.3},
    {"content": "Hello."},
]


def chat(context: ProtocolContext) -> list[ProtocolRoutes]:
    return [ninfer_protocol_build(context=context)]


Serve = Callable[..., AbstractContextManager[LiveServer]]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Servers that run one request at a time, unless they are asked for more."""
    yield partial(scripted_server, ANSWERS, chat)


def ask(text: str, **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], "enable_thinking": False, "max_tokens": 2000} | fields


def connect(server: LiveServer, text: str, *, receive_buffer: int | None = None, **fields: Any) -> socket.socket:
    """A request by hand, so that its connection can be dropped at any moment."""
    host, port = server.base_url.removeprefix("http://").split(":")
    content = json.dumps(ask(text, **fields)).encode()
    connection = socket.socket()
    if receive_buffer is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.settimeout(20)
    connection.connect((host, int(port)))
    connection.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (CHAT.encode(), len(content)))
    connection.sendall(content)
    return connection


@pytest.mark.contract("GEN-18", "EXEC-1", "EXEC-4")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("text", "state_seconds"), [("slow prompt" + "." * 1500, 0.5), ("slow answer", 0.5)])
def test_a_row_is_free_after_one_unit(serve: Serve, text: str, state_seconds: float, stream: bool) -> None:
    with (
        serve(options={"max_concurrency": 1, "prefill_chunk": 128}) as server,
        httpx.Client(base_url=server.base_url, timeout=20) as http,
    ):
        http.get("/health")
        leaving = connect(server, text, stream=stream)
        time.sleep(state_seconds)
        assert server.service.open_requests == 1
        begin = time.monotonic()
        leaving.close()
        assert http.post(CHAT, json=ask("hi")).status_code == 200
        assert time.monotonic() - begin < UNIT_SECONDS + SLACK_SECONDS
        until(lambda: server.service.open_requests == 0, 1)


@pytest.mark.contract("GEN-18", "EXEC-4")
def test_those_that_wait_leave_at_once(serve: Serve) -> None:
    with serve(options={"max_concurrency": 1, "max_pending_requests": 3}) as server:
        connections = [connect(server, "slow answer", stream=stream) for stream in (True, False, True, True)]
        until(lambda: server.service.open_requests == 4, 2)
        for left, leaving in enumerate(reversed(connections[1:]), start=1):
            leaving.close()
            until(lambda left=left: server.service.open_requests == 4 - left, SLACK_SECONDS)  # type: ignore[misc]
        connections[0].close()
        until(lambda: server.service.open_requests == 0, UNIT_SECONDS + SLACK_SECONDS)


@pytest.mark.contract("GEN-18", "EXEC-5")
def test_rendering_is_not_begun_for_those_that_have_left(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[str] = []
    real = QwenFrontend.prepare

    def slow(
        self: QwenFrontend, request: GenerationRequest, defaults: ThinkingDefaults, *, most_tokens: int | None = None
    ) -> PreparedPrompt:
        text = request.messages[-1].text
        if text.startswith("render"):
            prepared.append(text)
            time.sleep(0.6)
        return real(self, request, defaults, most_tokens=most_tokens)

    monkeypatch.setattr(QwenFrontend, "prepare", slow)
    log = io.StringIO()
    with (
        serve(options={"max_pending_requests": 16, "pending_timeout_ms": 300}, log=create_log("info", log)) as server,
        httpx.Client(base_url=server.base_url, timeout=20) as http,
    ):
        working = [connect(server, f"render {number}") for number in range(4)]
        until(lambda: len(prepared) >= 1, 2)
        waiting = [connect(server, f"render later {number}") for number in range(6)]
        until(lambda: server.service.open_requests == 10, 2)
        for leaving in waiting:
            leaving.close()
        # Those that wait for a thread go at once; one that a thread works for ends with its work.
        until(lambda: server.service.open_requests == 4, SLACK_SECONDS)
        for connection in working:
            assert connection.recv(65536).startswith(b"HTTP/1.1 503 ")
        until(lambda: server.service.open_requests == 0, 2)
        assert http.post(CHAT, json=ask("hi")).status_code == 200
        assert len(prepared) <= min(MAX_THREADS, os.cpu_count() or 1), "only what a thread had begun was prepared"
    assert log.getvalue().count("request_started") == 1


@pytest.mark.contract("EXEC-4", "GEN-18")
def test_clients_that_leave_around_the_end(serve: Serve) -> None:
    choose = random.Random(7)
    with serve(options={"max_concurrency": 4}) as server, httpx.Client(base_url=server.base_url, timeout=20) as http:
        for _ in range(60):
            leaving = connect(server, "short answer", stream=choose.random() < 0.5)
            time.sleep(choose.random() * 0.02)
            leaving.close()
        until(lambda: server.service.open_requests == 0, 2)
        assert http.post(CHAT, json=ask("hi")).json()["choices"][0]["message"]["content"] == "Hello."


@pytest.mark.contract("EXEC-4", "EXEC-6", "GEN-18")
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_nobody_takes_counts_until_it_is_given_up(serve: Serve, stream: bool) -> None:
    log = io.StringIO()
    with (
        serve(
            options={"max_concurrency": 1, "max_pending_requests": 1},
            stall_seconds=1.5,
            log=create_log("info", log),
        ) as server,
        httpx.Client(base_url=server.base_url, timeout=20) as http,
    ):
        slow = [connect(server, "long answer", stream=stream, receive_buffer=4096)]
        until(lambda: "request_done" in log.getvalue() or stream, 5)
        assert http.post(CHAT, json=ask("hi")).status_code == 200, "a slow reader holds nobody up"
        slow.append(connect(server, "long answer", stream=stream, receive_buffer=4096))
        until(lambda: server.service.open_requests == 2, 2)
        time.sleep(0.3)
        assert http.post(CHAT, json=ask("hi")).status_code == 429
        until(lambda: server.service.open_requests == 0, 8)
        assert http.post(CHAT, json=ask("hi")).status_code == 200
        for connection in slow:
            connection.close()
    assert "client_disconnected" in log.getvalue()


@pytest.mark.contract("EXEC-6")
def test_a_reader_that_stalls_slows_nobody(serve: Serve) -> None:
    with serve(options={"max_concurrency": 2}) as server, httpx.Client(base_url=server.base_url, timeout=20) as http:

        def seconds(count: int) -> float:
            begin = time.monotonic()
            for _ in range(count):
                assert http.post(CHAT, json=ask("short answer")).status_code == 200
            return time.monotonic() - begin

        seconds(2)
        alone = seconds(8)
        with connect(server, "long answer", stream=True, receive_buffer=4096):
            until(lambda: server.service.open_requests == 1, 2)
            # On a busy machine only the best of several tries says something.
            until(lambda: seconds(8) < alone / 0.9 + 0.1, 15)
            # The last of them may still be on its way out of the server's own thread.
            until(lambda: server.service.open_requests == 1, 2)
        until(lambda: server.service.open_requests == 0, 2)


@pytest.mark.contract("MEDIA-2")
def test_a_hopeless_prompt_is_not_looked_at(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        serve(max_request_bytes=64 * 2**20) as server,
        httpx.Client(base_url=server.base_url, timeout=20) as http,
    ):
        monkeypatch.setattr(QwenFrontend, "prepare", lambda *_: pytest.fail("it was prepared"))
        begin = time.monotonic()
        answer = http.post(CHAT, json=ask("word " * 2_000_000))
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["param"]) == (400, "context_length_exceeded", "messages")
        assert "at least 2" in error["message"]
        assert time.monotonic() - begin < 3
