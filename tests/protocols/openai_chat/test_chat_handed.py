"""Handed failures of similar servers, by their ids: streams, bodies, paths, overload, clients that go away."""

from __future__ import annotations

import base64
import gzip
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from ninfer_protocols.openai_chat import ninfer_protocol_build

from ninfer_core.api import ProtocolContext, ProtocolRoutes
from ninfer_core.testing.event_streams import data_payloads
from ninfer_core.testing.live_server import LiveServer
from ninfer_core.testing.scripted_server import scripted_server
from ninfer_core.testing.server_process import until

PATH = "/v1/chat/completions"
MODEL = "qwen3.8-27b"
RAW = base64.b64decode(
    "eyJtb2RlbCI6InF3ZW4zLjgtMjdiIiwibWF4X3Rva2VucyI6NCwibWVzc2FnZXMiOlt7InJvbGUiOiJ1c2VyIiwiY29udGVudCI6IngifV19"
)
"""The body of the cases `ht-`."""
ANSWERS: list[dict[str, Any]] = [
    {"match": "slowly", "content": "word " * 400, "delay_ms": 20},
    {"match": "quickly", "content": "word " * 40, "delay_ms": 2},
    {"reasoning": "So.", "content": "OK, I say it, and again."},
]


def chat(context: ProtocolContext) -> list[ProtocolRoutes]:
    return [ninfer_protocol_build(context=context)]


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with scripted_server(ANSWERS, chat, model_id=MODEL, max_request_bytes=1 << 20) as running:
        yield running


@pytest.fixture(scope="module")
def http(server: LiveServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.base_url, timeout=20) as client:
        yield client


def body(text: str = "Say OK.", **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], "max_tokens": 1000} | fields


@pytest.mark.contract("CHAT-45", "CHAT-46", "IMPL-3")
@pytest.mark.parametrize("include_usage", [True, False], ids=["cs-01", "cs-02"])
def test_the_order_of_chunks(http: httpx.Client, include_usage: bool) -> None:
    options: dict[str, Any] = {"stream_options": {"include_usage": True}} if include_usage else {}
    chunks = data_payloads(http.post(PATH, json=body(max_tokens=8, stream=True, **options)).text)
    assert chunks.pop() == "[DONE]"
    if include_usage:
        usage = chunks.pop()
        assert (usage["choices"], "timings" in usage) == ([], True)
        assert usage["usage"]["completion_tokens"] == 8 and all(chunk["usage"] is None for chunk in chunks)
    else:
        assert "timings" in chunks[-1] and all("usage" not in chunk for chunk in chunks)
    choices = [chunk["choices"][0] for chunk in chunks]
    assert choices[0]["delta"] == {"role": "assistant", "content": ""}
    assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + ["length"]
    assert all(choice["delta"] for choice in choices[:-1]) and choices[-1]["delta"] == {}


@pytest.mark.parametrize("size", [7, 1], ids=["ht-02", "one byte"])
def test_a_chunked_upload(http: httpx.Client, size: int) -> None:
    pieces = (RAW[start : start + size] for start in range(0, len(RAW), size))
    answer = http.post(PATH, content=pieces, headers={"content-type": "application/json"})
    assert answer.status_code == 200
    assert answer.json()["usage"] == http.post(PATH, content=RAW).json()["usage"]


def test_ht_04_a_compressed_upload_is_bounded_in_both_forms(http: httpx.Client) -> None:
    packed = {"content-encoding": "gzip"}
    assert http.post(PATH, content=gzip.compress(RAW), headers=packed).status_code == 200
    bomb = gzip.compress(b" " * (2 << 20) + RAW)
    assert len(bomb) < 1 << 20
    assert http.post(PATH, content=bomb, headers=packed).status_code == 413
    assert http.post(PATH, content=RAW, headers=packed).status_code == 400


def test_ht_06_an_expected_continue_comes_at_once(server: LiveServer) -> None:
    host, port = server.base_url.removeprefix("http://").split(":")
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(RAW)}\r\nExpect: 100-continue\r\n\r\n"
    begin = time.monotonic()
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(head.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
        connection.sendall(RAW)
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
    assert time.monotonic() - begin < 1.5


@pytest.mark.contract("GEN-14", "ERR-1")
@pytest.mark.parametrize(
    ("method", "path", "statuses"),
    [
        ("GET", "/v1/nope", {404}),
        ("GET", PATH, {405}),
        ("POST", PATH + "/", {200, 404}),
        ("POST", "/v1" + PATH, {404}),
        ("HEAD", "/health", {200}),
    ],
)
def test_ht_08_paths_and_methods(http: httpx.Client, method: str, path: str, statuses: set[int]) -> None:
    answer = http.request(method, path, content=RAW if method == "POST" else None)
    assert answer.status_code in statuses
    assert answer.headers["x-request-id"].startswith("req_")
    if answer.status_code in (404, 405):
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


@pytest.mark.contract("GEN-6", "GEN-7")
def test_ht_09_models(http: httpx.Client) -> None:
    (listed,) = http.get("/v1/models").json()["data"]
    found = http.get(f"/v1/models/{MODEL}").json()
    assert found == listed and (found["id"], found["object"], found["max_model_len"]) == (MODEL, "model", 4096)
    for other in ("other", "org%2Fname"):
        assert http.get(f"/v1/models/{other}").status_code == 404


@pytest.mark.contract("EXEC-5", "GEN-4", "ERR-3")
def test_ov_01_full_and_waited_too_long() -> None:
    options = {"max_concurrency": 1, "max_pending_requests": 1, "pending_timeout_ms": 1500}
    with (
        scripted_server(ANSWERS, chat, options=options) as server,
        httpx.Client(base_url=server.base_url, timeout=20) as http,
        ThreadPoolExecutor(4) as pool,
    ):
        asked = [pool.submit(http.post, PATH, json=body("slowly", model=None, max_tokens=110)) for _ in range(4)]
        until(lambda: sum(each.done() for each in asked) == 2, 1)
        assert http.get("/health").status_code == 200
        answers = [each.result() for each in asked]
        assert sorted(answer.status_code for answer in answers) == [200, 429, 429, 503]
        codes = {answer.json()["error"]["code"] for answer in answers if answer.status_code != 200}
        assert codes == {"server_overloaded", "request_queue_timeout"}


@pytest.mark.contract("EXEC-6")
def test_di_03_a_slow_reader_beside_a_normal_one(server: LiveServer, http: httpx.Client) -> None:
    def seconds() -> float:
        begin = time.monotonic()
        for _ in range(3):
            assert http.post(PATH, json=body("quickly")).status_code == 200
        return time.monotonic() - begin

    seconds()
    alone = seconds()
    with httpx.stream("POST", server.base_url + PATH, json=body("quickly", stream=True), timeout=20) as slow:
        letters = slow.iter_raw(1)
        next(letters)
        # On a busy machine only the best of several tries says something.
        until(lambda: alone / seconds() > 0.9, 15)
    until(lambda: server.service.open_requests == 0, 3)


@pytest.mark.contract("GEN-18", "EXEC-4")
def test_di_04_those_that_leave_the_queue_make_room() -> None:
    options = {"max_concurrency": 1, "max_pending_requests": 3}
    with scripted_server(ANSWERS, chat, options=options) as server:
        host, port = server.base_url.removeprefix("http://").split(":")
        head = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
        content = b'{"messages": [{"role": "user", "content": "slowly"}], "stream": true}'
        connections = [socket.create_connection((host, int(port)), timeout=10) for _ in range(4)]
        for connection in connections:
            connection.sendall(head % (PATH.encode(), len(content)) + content)
        until(lambda: server.service.open_requests == 4, 3)
        refused = httpx.post(server.base_url + PATH, json=body(model=None))
        assert refused.status_code == 429
        for connection in connections[1:3]:
            connection.close()
        until(lambda: server.service.open_requests == 2, 1)
        for connection in (connections[0], connections[3]):
            connection.close()
        assert httpx.post(server.base_url + PATH, json=body(model=None)).status_code == 200
