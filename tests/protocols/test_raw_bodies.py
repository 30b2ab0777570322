"""Bodies that no honest client sends, against every endpoint that takes one: no 500, no hang, no memory that stays.

Sound bodies are cut, bent and filled with what breaks parsers; everything goes through all layers of a server.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from ninfer_protocols.anthropic import ninfer_protocol_build as build_anthropic
from ninfer_protocols.openai_chat import ninfer_protocol_build as build_chat
from ninfer_protocols.openai_responses import ninfer_protocol_build as build_responses

from ninfer_core.serving.asgi import Application, Message
from ninfer_core.testing.scripted_application import scripted_application
from ninfer_core.testing.scripted_service import ScriptedService

MODEL = "scripted-model"
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
SOUND: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        "model": MODEL,
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": [{"type": "text", "text": "Hi."}]},
            {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": "2"},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}],
        "stop": ["x"],
        "temperature": 0.5,
        "seed": 1,
        "stream_options": {"include_usage": True},
        "chat_template_kwargs": {"enable_thinking": True},
    },
    "/v1/responses": {
        "model": MODEL,
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Hi."}]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "2"},
        ],
        "tools": [{"type": "function", "name": "f", "parameters": SCHEMA, "strict": False}],
        "reasoning": {"effort": "low"},
        "metadata": {"a": "b"},
        "store": False,
    },
    "/v1/responses/input_tokens": {"model": MODEL, "input": "Hi.", "instructions": "Be kind."},
    "/v1/messages": {
        "model": MODEL,
        "max_tokens": 64,
        "system": [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": "Hi."},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "2"}]},
        ],
        "tools": [{"name": "f", "input_schema": SCHEMA}],
        "thinking": {"type": "adaptive"},
        "stop_sequences": ["x"],
    },
    "/v1/messages/count_tokens": {"model": MODEL, "messages": [{"role": "user", "content": "Hi."}]},
}
STRANGE_VALUES: list[Any] = [
    None, True, False, 0, -1, 1.5, 2**63, -(2**63) - 1, 10**400, 1e308, "", "x", "\x00", "\ud800", "\udfff\ud800",
    "é" * 300, [], {}, [[]], [None], {"": None}, {"type": None}, {"type": []}, [{"type": "text"}], "http://[::1",
    "data:image/png;base64,",
]  # fmt: skip
STRANGE_BYTES = [
    b"\x00", b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\xef\xbb\xbf", b"NaN", b"Infinity", b"-Infinity", b"1e999999",
    b"-0", b"\\ud800", b"\\u0000", b"\\x", b'"', b"{", b"}", b"[", b"]", b",", b":", b"0123", b"/*", b"\r\n",
    b"9" * 5000,
]  # fmt: skip
SECONDS = 2.0
"""Longest that one body may take, on a machine that does other things as well."""


def copy_of(value: Any) -> Any:
    return json.loads(json.dumps(value))


def bent(chance: random.Random, sound: dict[str, Any]) -> Any:
    """A copy with some of its values exchanged, dropped, doubled or put deep into others."""
    copy = copy_of(sound)
    for _ in range(chance.randint(1, 3)):
        places = list(_places(copy))
        if not places:
            break
        container, key = chance.choice(places)
        match chance.randrange(6):
            case 0:
                del container[key]
            case 1 if isinstance(container, list):
                container += [copy_of(container[key]) for _ in range(chance.randint(1, 30))]
            case 2:
                container[key] = deep(chance, container[key], chance.choice([3, 60, 126, 127, 128, 300]))
            case 3:
                container[key] = copy_of(chance.choice(places)[0])
            case _:
                container[key] = copy_of(chance.choice(STRANGE_VALUES))
    return copy


def _places(value: Any) -> Any:
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


def deep(chance: random.Random, value: Any, levels: int) -> Any:
    for _ in range(levels):
        value = [value] if chance.random() < 0.5 else {"a": value}
    return value


def body_of(chance: random.Random, sound: dict[str, Any]) -> tuple[bytes, bytes]:
    """-> a body and its content coding."""
    try:
        body = json.dumps(bent(chance, sound), ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")
    except RecursionError:
        body = b"[" * 100_000
    match chance.randrange(8):
        case 0:
            body = body[: chance.randrange(len(body) + 1)]
        case 1:
            place = chance.randrange(len(body) + 1)
            body = body[:place] + chance.choice(STRANGE_BYTES) + body[place + chance.randint(0, 2) :]
        case 2:
            body = chance.choice([b"[", b'{"a":', b"[[", b'{"messages":[']) * chance.choice([10, 1000, 30_000])
        case 3:
            body = chance.randbytes(chance.randint(0, 100))
    if chance.random() < 0.05:
        packed = gzip.compress(body, 1)
        return packed[: chance.choice([len(packed), chance.randrange(len(packed))])], chance.choice([b"gzip", b"zstd"])
    return body, b"identity"


async def status_of(app: Application, path: str, body: bytes, coding: bytes) -> tuple[int, bytes]:
    """One POST without a socket."""
    received: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Message] = []

    async def receive() -> Message:
        if received:
            return received.pop()
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"content-length", str(len(body)).encode()), (b"content-encoding", coding)],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    await app(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


async def attack(count: int, seed: int) -> Counter[int]:
    """Send `count` bodies; -> answers by status. After a quarter of them memory must have settled."""
    service = ScriptedService()
    app = scripted_application(service, [build_chat, build_responses, build_anthropic])
    chance = random.Random(seed)
    statuses: Counter[int] = Counter()
    settled = 0.0
    for number in range(count):
        path = chance.choice(list(SOUND))
        body, coding = body_of(chance, SOUND[path])
        begin = time.monotonic()
        status, answer = await asyncio.wait_for(status_of(app, path, body, coding), 30)
        assert time.monotonic() - begin < SECONDS, (path, body[:2000])
        assert status < 500, (path, body[:2000], answer)
        if status != 200:
            assert json.loads(answer)["error"]["message"], (path, body[:2000])
        elif not answer.startswith((b"data:", b"event:", b":")):
            json.loads(answer)
        statuses[status] += 1
        service.requests.clear()
        if number == count // 4:
            settled = resident_mib()
    assert service.open_generations == 0
    assert resident_mib() - settled < 16
    return statuses


@pytest.mark.contract("CHAT-35", "CHAT-37", "ERR-1")
@pytest.mark.parametrize("path", SOUND)
def test_what_is_bent_was_sound(path: str) -> None:
    app = scripted_application(ScriptedService(), [build_chat, build_responses, build_anthropic])
    status, answer = asyncio.run(status_of(app, path, json.dumps(SOUND[path]).encode(), b"identity"))
    assert status == 200, answer


def test_some_bodies() -> None:
    statuses = asyncio.run(attack(3000, seed=1))
    assert statuses[400] > 1500 and statuses[200] > 100


@pytest.mark.long
def test_forty_thousand_bodies() -> None:
    asyncio.run(attack(40_000, seed=2))
