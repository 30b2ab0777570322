"""Generations over HTTP: concurrency, capacity, deadlines, clients that go away, an engine that dies."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from ninfer_core.testing.event_streams import data_payloads
from ninfer_core.testing.live_server import LiveServer

CHAT = "/v1/chat/completions"
Serve = Callable[..., LiveServer]


def body(**fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 40, "seed": 1} | fields


def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.01)


def streamed_text(text: str) -> tuple[str, str]:
    deltas = [chunk["choices"][0]["delta"] for chunk in data_payloads(text)[:-1]]
    return (
        "".join(delta.get("reasoning_content", "") for delta in deltas),
        "".join(delta.get("content", "") for delta in deltas),
    )


@pytest.mark.contract("EXEC-1", "GEN-28", "CHAT-42")
@pytest.mark.parametrize("columns", [1, 5])
def test_eight_clients_get_what_one_at_a_time_gets(serve: Serve, columns: int) -> None:
    server = serve(capacities={"max_concurrency": 8, "kv_pages": 32}, columns=columns)
    with httpx.Client(base_url=server.base_url, timeout=20) as http:

        def ask(seed: int, stream: bool) -> tuple[str, str]:
            answer = http.post(CHAT, json=body(seed=seed, stream=stream))
            if stream:
                return streamed_text(answer.text)
            message = answer.json()["choices"][0]["message"]
            return message.get("reasoning_content", ""), message["content"]

        alone = [ask(seed, stream=False) for seed in range(16)]
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(lambda seed: ask(seed, stream=seed % 2 == 0), range(16)))
    assert together == alone
    assert any(reasoning for reasoning, _ in alone) and any(content for _, content in alone)


@pytest.mark.contract("EXEC-4", "EXEC-5", "ERR-3", "GEN-4")
def test_a_full_server_says_so_and_the_deadline_ends_the_wait(serve: Serve) -> None:
    server = serve(
        capacities={"max_concurrency": 1, "max_pending_requests": 1},
        pending_timeout_ms=400,
        slow_seconds=0.04,
        endless=True,
    )
    with httpx.Client(base_url=server.base_url, timeout=20) as http, ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(http.post, CHAT, json=body(seed=2, max_tokens=40)) for _ in range(4)]
        until(lambda: any(answer.done() for answer in answers))
        assert http.get("/health").status_code == 200
        outcomes = sorted(answer.result().status_code for answer in answers)
        assert outcomes == [200, 429, 429, 503]
        codes = {answer.result().json().get("error", {}).get("code") for answer in answers}
        assert codes == {None, "server_overloaded", "request_queue_timeout"}
    until(lambda: server.service.open_requests == 0)


def _send(server: LiveServer, **fields: Any) -> socket.socket:
    """A request by hand, so that its connection can be dropped at any moment."""
    host, port = server.base_url.removeprefix("http://").split(":")
    content = json.dumps(body(**fields)).encode()
    connection = socket.create_connection((host, int(port)), timeout=10)
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(content)
    connection.sendall(head + content)
    return connection


@pytest.mark.contract("GEN-18", "IMPL-23")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("sent_behind", [0, 3], ids=["no request", "three requests"])
def test_a_client_that_goes_away_frees_its_place(serve: Serve, stream: bool, sent_behind: int) -> None:
    server = serve(capacities={"max_concurrency": 1}, slow_seconds=0.05, endless=True)
    connection = _send(server, seed=2, max_tokens=200, stream=stream)
    until(lambda: server.service.open_requests == 1)
    if stream:
        while b"content" not in connection.recv(65536):
            pass
    for _ in range(sent_behind):
        connection.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
    connection.close()
    begin = time.monotonic()
    until(lambda: server.service.open_requests == 0)
    assert time.monotonic() - begin < 1


def test_no_refusal_is_written_into_the_answer_that_runs(serve: Serve) -> None:
    server = serve(capacities={"max_concurrency": 1}, slow_seconds=0.05, endless=True)
    with _send(server, seed=2, max_tokens=200, stream=True) as connection:
        received = connection.recv(65536)
        while b"content" not in received:
            received += connection.recv(65536)
        connection.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\nno http\r\n\r\n")
        while piece := connection.recv(65536):
            received += piece
    assert received.count(b"HTTP/1.1 ") == 1 and b"invalid_http" not in received
    until(lambda: server.service.open_requests == 0)


@pytest.mark.contract("GEN-18", "EXEC-4")
def test_clients_that_go_away_while_they_wait_leave_the_queue(serve: Serve) -> None:
    server = serve(capacities={"max_concurrency": 1, "max_pending_requests": 3}, slow_seconds=0.05, endless=True)
    connections = [_send(server, seed=2, max_tokens=200, stream=True) for _ in range(4)]
    until(lambda: server.service.open_requests == 4)
    for connection in connections[1:3]:
        connection.close()
    until(lambda: server.service.open_requests == 2)
    with httpx.Client(base_url=server.base_url) as http:
        assert http.get("/health").status_code == 200
    for connection in connections:
        connection.close()
    until(lambda: server.service.open_requests == 0)


def test_a_reader_that_stalls_delays_nobody(serve: Serve) -> None:
    server = serve(capacities={"max_concurrency": 2, "max_context": 8192, "kv_pages": 256}, endless=True)
    with (
        _send(server, seed=2, max_tokens=8000, stream=True),
        httpx.Client(base_url=server.base_url, timeout=10) as http,
    ):
        for seed in range(20):
            assert http.post(CHAT, json=body(seed=seed)).status_code == 200
    until(lambda: server.service.open_requests == 0)


@pytest.mark.contract("GEN-3", "ERR-4")
def test_an_engine_that_breaks_ends_its_requests_and_the_health(serve: Serve) -> None:
    server = serve(slow_seconds=0.01, fail_at_unit=12, endless=True)
    with httpx.Client(base_url=server.base_url, timeout=10) as http:
        answer = http.post(CHAT, json=body(seed=2, max_tokens=200, stream=True))
        assert answer.status_code == 200
        assert data_payloads(answer.text)[-1]["error"]["code"] == "service_unavailable"
        until(lambda: http.get("/health").status_code == 503, seconds=2)
        assert http.get("/health").json() == {"status": "unavailable"}
        refused = http.post(CHAT, json=body())
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "service_unavailable")
        assert http.get("/v1/models").status_code == 200


def test_a_drain_lets_running_requests_finish(serve: Serve) -> None:
    server = serve(slow_seconds=0.01, endless=True)
    finished: list[str] = []

    def ask() -> None:
        finished.append(httpx.post(server.base_url + CHAT, json=body(max_tokens=60, stream=True), timeout=10).text)

    asking = threading.Thread(target=ask)
    asking.start()
    until(lambda: server.service.open_requests == 1)
    server.stop()
    asking.join(10)
    assert finished and finished[0].endswith("data: [DONE]\n\n")
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.base_url + "/health")


def test_a_drain_has_an_end(serve: Serve) -> None:
    server = serve(slow_seconds=0.1, drain_seconds=1, endless=True)
    with _send(server, seed=2, max_tokens=200, stream=True):
        until(lambda: server.service.open_requests == 1)
        server.stop()
        until(lambda: server.service.open_requests == 0, seconds=4)
