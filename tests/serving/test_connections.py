"""Bounds on connections, on real sockets."""

from __future__ import annotations

import io
import json
import socket
import time
from urllib.parse import urlsplit

import httpx
import pytest
from ninfer_protocols.openai_chat import ninfer_protocol_build

from ninfer_core.serving.asgi import Application
from ninfer_core.serving.connections import MAX_CONNECTIONS, MAX_HEAD_BYTES, connection_bound
from ninfer_core.telemetry import create_log
from ninfer_core.testing.scripted_application import listening, scripted_application
from ninfer_core.testing.scripted_service import EventScript, ScriptedService

HEALTH = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"


@pytest.fixture
def app() -> Application:
    return scripted_application(ScriptedService(), [ninfer_protocol_build])


def connect(url: str) -> socket.socket:
    address = urlsplit(url)
    return socket.create_connection((address.hostname, address.port), timeout=20)


def read_to_end(connection: socket.socket) -> bytes:
    pieces = []
    while piece := connection.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)


def be_served(connection: socket.socket) -> None:
    """A whole exchange: from then on the server knows the connection."""
    connection.sendall(HEALTH)
    answer = b""
    while not answer.endswith(b"}"):
        answer += connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 200")


def test_one_connection_too_many_gets_a_typed_answer(app: Application) -> None:
    with listening(app, max_connections=3) as url:
        idle = [connect(url) for _ in range(3)]
        for connection in idle:
            be_served(connection)
        refused = httpx.post(f"{url}/v1/chat/completions", json={"messages": []})
        assert (refused.status_code, refused.headers["connection"]) == (503, "close")
        error = refused.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert (error["code"], error["type"]) == ("too_many_connections", "server_error")
        with connect(url) as silent:
            head, _, body = read_to_end(silent).partition(b"\r\n\r\n")
        assert b"503" in head and json.loads(body)["error"]["code"] == "too_many_connections"
        for connection in idle:
            connection.close()
        deadline = time.monotonic() + 20
        while httpx.get(f"{url}/health").status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_far_too_many_are_dropped(app: Application) -> None:
    with listening(app, max_connections=1) as url, connect(url) as first:
        be_served(first)
        waiting = [connect(url) for _ in range(6)]
        answers = []
        for connection in waiting:
            with connection:
                try:
                    answers.append(read_to_end(connection))
                except ConnectionError:
                    answers.append(b"")
        assert b"" in answers


@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\nhost:"])
def test_a_head_that_does_not_come_ends_the_connection(app: Application, sent: bytes) -> None:
    with listening(app, head_seconds=0.3) as url, connect(url) as new, connect(url) as used:
        new.sendall(sent)
        be_served(used)
        assert read_to_end(new) == b""
        # Between two requests a connection may rest; within the second head it may not.
        time.sleep(0.4)
        used.sendall(b"GET /health HTTP/1.1\r\n")
        assert read_to_end(used) == b""


@pytest.mark.parametrize("field", [b"x: " + b"a" * 1020 + b"\r\n", b"a" * 1024], ids=["many", "one"])
def test_a_head_without_end_is_refused(app: Application, field: bytes) -> None:
    with listening(app) as url, connect(url) as connection:
        be_served(connection)
        connection.sendall(b"GET /health HTTP/1.1\r\nx: " + field * (MAX_HEAD_BYTES // len(field)))
        time.sleep(0.1)
        connection.sendall(field)
        head, _, body = read_to_end(connection).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 431 ")
        error = json.loads(body)["error"]
        assert error["code"] == "request_head_too_large" and str(MAX_HEAD_BYTES) in error["message"]


@pytest.mark.parametrize("protocol", ["websocket", "h2c"])
def test_another_protocol_is_answered_in_this_one(app: Application, protocol: str) -> None:
    log = io.StringIO()
    with listening(app, log=create_log("info", log)) as url:
        headers = {"connection": "upgrade", "upgrade": protocol, "sec-websocket-key": "AAAA"}
        assert httpx.get(f"{url}/health", headers=headers).json() == {"status": "ok"}
    assert "library_message" not in log.getvalue()


@pytest.mark.contract("GEN-14")
@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /health HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_no_http_is_told_so_in_a_typed_answer(app: Application, sent: bytes) -> None:
    with listening(app) as url, connect(url) as connection:
        be_served(connection)
        connection.sendall(sent)
        head, _, body = read_to_end(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ") and b"\r\nx-request-id: req_" in head
    error = json.loads(body)["error"]
    assert (error["code"], error["type"], error["param"]) == ("invalid_http", "invalid_request_error", None)


def test_every_refusal_has_an_id_of_its_own(app: Application) -> None:
    with listening(app, max_connections=1) as url, connect(url) as first:
        be_served(first)
        ids = [httpx.get(f"{url}/health").headers["x-request-id"] for _ in range(2)]
    assert len(set(ids)) == 2 and all(each.startswith("req_") for each in ids)


def test_trailers_without_end_are_cut_off(app: Application) -> None:
    with listening(app) as url, connect(url) as connection:
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n")
        with pytest.raises(ConnectionError):
            for _ in range(64):
                connection.sendall(b"x: " + b"a" * (1024 * 1024) + b"\r\n")


def test_bodies_are_no_heads(app: Application) -> None:
    """Neither a long one, nor one in chunks whose frames are longer than they are."""
    text = json.dumps({"messages": [{"role": "user", "content": "a" * 300_000}]}).encode()
    chunks = (text[start : start + 3] for start in range(0, len(text), 3))
    with listening(app) as url:
        for body in (text, chunks):
            assert httpx.post(f"{url}/v1/chat/completions", content=body, timeout=20).status_code == 200


def exchange(url: str, version: str, method: str, path: str, body: bytes = b"", *fields: bytes) -> tuple[bytes, bytes]:
    """Head and body of an answer; the connection is to be closed after it."""
    head = (f"{method} {path} {version}".encode(), b"host: x", b"content-length: %d" % len(body), *fields)
    with connect(url) as connection:
        connection.sendall(b"\r\n".join(head) + b"\r\n\r\n" + body)
        head_bytes, _, answer = read_to_end(connection).partition(b"\r\n\r\n")
    return head_bytes.lower(), answer


def test_a_stream_to_a_client_of_http_1_0_has_no_chunks_and_ends_with_the_connection(app: Application) -> None:
    asked = json.dumps({"messages": [{"role": "user", "content": "x"}], "stream": True}).encode()
    with listening(app) as url:
        head, streamed = exchange(url, "HTTP/1.0", "POST", "/v1/chat/completions", asked, b"expect: 100-continue")
        newer, chunked = exchange(url, "HTTP/1.1", "POST", "/v1/chat/completions", asked, b"connection: close")
    assert head.startswith(b"http/1.1 200") and b"connection: close" in head
    assert b"transfer-encoding" not in head and b"content-length" not in head
    events = streamed.split(b"\n\n")
    assert all(event.startswith(b"data: ") for event in events[:-1]) and events[-2:] == [b"data: [DONE]", b""]
    assert b"transfer-encoding: chunked" in newer and chunked.endswith(b"\r\n0\r\n\r\n")


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/v1/models", 200), ("HEAD", "/v1/models", 200), ("GET", "/x", 404)]
)
def test_an_answer_with_a_length_is_the_same_for_http_1_0(
    app: Application, method: str, path: str, status: int
) -> None:
    with listening(app) as url:
        (head, old), (newer, new) = (
            exchange(url, version, method, path, b"", b"connection: close") for version in ("HTTP/1.0", "HTTP/1.1")
        )
    assert old == new and head.startswith(b"http/1.1 %d " % status)
    lengths = [[line for line in each.split(b"\r\n") if line.startswith(b"content-length")] for each in (head, newer)]
    assert lengths[0] == lengths[1] and len(lengths[0]) == 1


def test_a_long_answer_outlives_the_time_for_heads() -> None:
    script = EventScript(pieces=[("content", "x")] * 5, pause_seconds=0.1)
    app = scripted_application(ScriptedService(script), [ninfer_protocol_build])
    with listening(app, head_seconds=0.3) as url:
        asked = {"messages": [{"role": "user", "content": "x"}]}
        answer = httpx.post(f"{url}/v1/chat/completions", json=asked, timeout=20)
        assert answer.json()["choices"][0]["message"]["content"] == "xxxxx"


def test_the_bound_fits_what_the_process_may_open(monkeypatch: pytest.MonkeyPatch) -> None:
    for files, bound in [(256, 128), (2**20, MAX_CONNECTIONS), (-1, MAX_CONNECTIONS), (10, 1)]:
        monkeypatch.setattr("resource.getrlimit", lambda kind, files=files: (files, files))
        assert connection_bound() == bound
