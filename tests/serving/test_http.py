"""HTTP as clients meet it: errors in one form, keys, CORS, limits, model look-up."""

from __future__ import annotations

import gzip
import json
import socket
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from ninfer_core.serving.content_encoding import zstd
from ninfer_core.testing.live_server import LiveServer

CHAT = "/v1/chat/completions"
Serve = Callable[..., LiveServer]


def body(**fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4, "seed": 1} | fields


def client(server: LiveServer, **options: Any) -> httpx.Client:
    return httpx.Client(base_url=server.base_url, timeout=10, **options)


@pytest.fixture
def http(serve: Serve) -> Iterator[httpx.Client]:
    with client(serve()) as opened:
        yield opened


@pytest.mark.contract("GEN-3", "GEN-6", "GEN-7", "GEN-20", "IMPL-1")
def test_health_and_models(http: httpx.Client) -> None:
    assert http.get("/health").json() == {"status": "ok"}
    (model,) = http.get("/v1/models").json()["data"]
    assert model["id"] == "simulated"
    assert (model["object"], model["owned_by"], model["max_model_len"]) == ("model", "ninfer", 256)
    assert isinstance(model["created"], int)
    assert http.get("/v1/models/simulated").json() == model
    for other in ("other", "org%2Fname", "simulated/x"):
        answer = http.get(f"/v1/models/{other}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")


@pytest.mark.parametrize(
    "path",
    ["/health", "/v1/models", "/v1/models/simulated", "/v1/models/other", "/v1/responses/resp_0", "/openapi.json"],
)
def test_head_is_get_without_its_body(http: httpx.Client, path: str) -> None:
    whole, head = http.get(path), http.head(path)
    assert (head.status_code, head.content) == (whole.status_code, b"")
    assert head.headers["content-length"] == str(len(whole.content))
    assert head.headers["content-type"] == whole.headers["content-type"]


def test_where_there_is_no_get_there_is_no_head(http: httpx.Client) -> None:
    head = http.head(CHAT)
    assert (head.status_code, head.headers["allow"]) == (405, "POST, OPTIONS")
    assert "HEAD" in http.put("/v1/models").headers["allow"]


@pytest.mark.contract("GEN-14", "IMPL-1")
def test_every_answer_has_its_own_request_id(http: httpx.Client) -> None:
    answers = [
        http.get("/v1/models"),
        http.post(CHAT, json=body()),
        http.post(CHAT, json=body(stream=True)),
        http.post(CHAT, content=b"{"),
        http.get("/v1/nope"),
        http.get(CHAT),
    ]
    ids = [answer.headers["x-request-id"] for answer in answers]
    assert len(set(ids)) == len(ids)
    assert all(each.startswith("req_") and len(each) == 36 for each in ids)


@pytest.mark.contract("ERR-1")
@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nope", 404, "not_found"),
        ("GET", "/nope", 404, "not_found"),
        ("GET", CHAT, 405, "method_not_allowed"),
        ("OPTIONS", "/v1/nope", 404, "not_found"),
        ("POST", "/v1/v1/chat/completions", 404, "not_found"),
        ("PUT", CHAT + "/", 405, "method_not_allowed"),
        ("DELETE", "/v1/models", 405, "method_not_allowed"),
        ("GET", "/v1/%ff", 404, "not_found"),
    ],
)
def test_framework_errors_have_the_form_of_the_protocol(
    http: httpx.Client, method: str, path: str, status: int, code: str
) -> None:
    answer = http.request(method, path)
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert answer.json()["error"]["code"] == code


@pytest.mark.contract("MEDIA-6", "CHAT-35")
@pytest.mark.parametrize(
    "content",
    [b"", b"null", b"[]", b'"x"', b"{", b'{"messages":{}}', b'{"messages":[null]}', b"\xff", b'{"a":"\\ud800"}'],
)
def test_bad_bodies_are_the_clients_fault(http: httpx.Client, content: bytes) -> None:
    answer = http.post(CHAT, content=content)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_a_body_is_json_whatever_it_calls_itself(http: httpx.Client) -> None:
    content = json.dumps(body()).encode()
    for kind in (None, "text/plain", "application/json; charset=utf-8", "multipart/form-data"):
        headers = {} if kind is None else {"content-type": kind}
        assert http.post(CHAT, content=content, headers=headers).status_code == 200


@pytest.mark.contract("CHAT-2", "CHAT-1")
def test_another_model_is_not_here(http: httpx.Client) -> None:
    answer = http.post(CHAT, json=body(model="gpt-9"))
    assert (answer.status_code, answer.json()["error"]["param"]) == (404, "model")


@pytest.mark.contract("GEN-22", "ERR-6")
def test_media_are_refused_without_vision(http: httpx.Client) -> None:
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    answer = http.post(CHAT, json=body(messages=[{"role": "user", "content": [part]}]))
    assert answer.status_code == 400
    assert (answer.json()["error"]["code"], answer.json()["error"]["param"]) == ("vision_disabled", "messages")


@pytest.mark.contract("MEDIA-2", "ERR-6")
def test_a_prompt_over_the_context_is_refused_with_its_numbers(http: httpx.Client) -> None:
    answer = http.post(CHAT, json=body(messages=[{"role": "user", "content": "x" * 300}]))
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, "context_length_exceeded", "messages")
    assert "306" in error["message"] and "256" in error["message"]


def test_an_answer_longer_than_the_context_is_clipped(http: httpx.Client) -> None:
    answer = http.post(CHAT, json=body(messages=[{"role": "user", "content": "x" * 230}], max_tokens=10**40, seed=7))
    assert answer.status_code == 200
    assert answer.json()["choices"][0]["finish_reason"] in ("stop", "length")


@pytest.mark.contract("CHAT-8", "OBS-6")
def test_no_output_wanted(http: httpx.Client) -> None:
    for _ in range(2):
        answer = http.post(CHAT, json=body(max_tokens=0)).json()
        assert (answer["usage"]["completion_tokens"], answer["choices"][0]["finish_reason"]) == (0, "length")


@pytest.mark.contract("AUTH-1", "AUTH-2", "GEN-5")
def test_keys(serve: Serve) -> None:
    with client(serve(api_key="k1")) as http:
        attempts: list[tuple[dict[str, str], int]] = [
            ({}, 401),
            ({"Authorization": "Bearer k1"}, 200),
            ({"authorization": "bearer k1"}, 200),
            ({"x-api-key": "k1"}, 200),
            ({"Authorization": "Bearer k2"}, 401),
            ({"Authorization": "Basic k1"}, 401),
            ({"Authorization": "Bearer other", "x-api-key": "k1"}, 200),
            ({"x-api-key": "k"}, 401),
        ]
        for headers, status in attempts:
            assert http.get("/v1/models", headers=headers).status_code == status
        refused = http.post(CHAT, json=body())
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")
        assert refused.headers["x-request-id"]
        assert http.get("/health").status_code == 200


@pytest.mark.contract("AUTH-2", "AUTH-3")
def test_cors(serve: Serve) -> None:
    asked = "authorization,content-type,x-stainless-os"
    preflight = {
        "Origin": "http://localhost:5173",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": asked,
    }
    with client(serve(cors=True, api_key="k1")) as http:
        answer = http.options(CHAT, headers=preflight)
        assert answer.status_code == 204
        assert answer.headers["access-control-allow-origin"] == "*"
        assert answer.headers["access-control-allow-headers"] == asked
        readable = http.get("/v1/models", headers={"Origin": "http://localhost:5173"})
        assert readable.status_code == 401
        assert readable.headers["access-control-allow-origin"] == "*"


@pytest.mark.contract("AUTH-3")
def test_cors_is_off_by_default(http: httpx.Client) -> None:
    origin = {"Origin": "http://evil.example"}
    for answer in (
        http.get("/v1/models", headers=origin),
        http.options(CHAT, headers=origin | {"Access-Control-Request-Method": "POST"}),
    ):
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.contract("MEDIA-6", "ERR-3")
def test_the_body_limit_counts_before_parsing(serve: Serve) -> None:
    def too_large() -> Iterator[bytes]:
        for _ in range(400):
            yield b"x" * 10_000

    with client(serve(max_request_bytes=100_000)) as http:
        for content in (b"x" * 100_001, b"x" * 30_000_000, too_large()):
            answer = http.post(CHAT, content=content)
            assert (answer.status_code, answer.json()["error"]["code"]) == (413, "request_too_large")
        padded = json.dumps(body()).encode().ljust(100_000)
        assert http.post(CHAT, content=padded).status_code == 200


@pytest.mark.contract("EXEC-21")
def test_compressed_bodies_are_bounded_in_both_forms(serve: Serve) -> None:
    content = json.dumps(body()).encode()
    two_members = gzip.compress(content[:20]) + gzip.compress(content[20:])
    two_frames = zstd.compress(content[:20]) + zstd.compress(content[20:])
    wide = {zstd.CompressionParameter.window_log: 27, zstd.CompressionParameter.compression_level: 1}
    unbounded = zstd.ZstdCompressor(options=wide)  # the length is not known in front, so the window is as asked for
    attempts: list[tuple[str, bytes, int]] = [
        ("gzip", gzip.compress(content), 200),
        ("x-gzip", gzip.compress(content), 200),
        ("GZIP", two_members, 200),
        ("identity", content, 200),
        ("gzip", gzip.compress(b"x" * 50_000_000), 413),
        ("gzip", gzip.compress(content.ljust(99_000)), 200),
        ("gzip", gzip.compress(content)[:-4], 400),
        ("gzip", content, 400),
        ("gzip", b"", 400),
        ("gzip", zlib.compress(content), 400),
        ("gzip", gzip.compress(b"") * 100 + gzip.compress(content), 400),
        ("zstd", zstd.compress(content), 200),
        ("Zstd", two_frames, 200),
        ("zstd", zstd.compress(b"x" * 50_000_000), 413),
        ("zstd", zstd.compress(content.ljust(99_000)), 200),
        ("zstd", zstd.compress(content)[:-4], 400),
        ("zstd", unbounded.compress(content) + unbounded.flush(), 400),
        ("zstd", content, 400),
        ("zstd", b"", 400),
        ("gzip, gzip", gzip.compress(gzip.compress(content)), 400),
    ]
    with client(serve(max_request_bytes=100_000)) as http:
        for encoding, sent, status in attempts:
            answer = http.post(CHAT, content=sent, headers={"content-encoding": encoding})
            assert answer.status_code == status, (encoding, answer.text)
        refused = http.post(CHAT, content=content, headers={"content-encoding": "br"}).json()["error"]
        assert "'br'" in refused["message"] and refused["code"] == "unsupported_content_encoding"


def _exchange(server: LiveServer, request: bytes, pieces: list[bytes]) -> bytes:
    """Speaks HTTP by hand: what follows the head, piece by piece, then everything that comes back."""
    host, port = server.base_url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(request)
        for piece in pieces:
            connection.sendall(piece)
        received = b""
        while data := connection.recv(65536):
            received += data
    return received


def test_chunked_uploads_and_expectations(serve: Serve) -> None:
    server = serve()
    content = json.dumps(body()).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    chunks = [content[start : start + 7] for start in range(0, len(content), 7)]
    pieces = [b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks] + [b"0\r\n\r\n"]
    assert b"200 OK" in _exchange(server, head + b"Transfer-Encoding: chunked\r\n\r\n", pieces)
    begin = time.monotonic()
    expecting = head + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(content)
    answer = _exchange(server, expecting, [content])
    assert answer.startswith(b"HTTP/1.1 100") and b"200 OK" in answer
    assert time.monotonic() - begin < 1.5
    assert b"400" in _exchange(server, b"NONSENSE\r\n\r\n", [])
