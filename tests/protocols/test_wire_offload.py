"""Large bodies are understood away from the event loop, in pieces that let others run."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import msgspec
import pytest
from ninfer_protocols import anthropic, openai_chat, openai_responses
from ninfer_protocols.openai_responses import store
from ninfer_protocols.wire import json as wire_json
from ninfer_protocols.wire.json import MANY_ITEMS, PIECE_BYTES, convert, decode_object
from ninfer_protocols.wire.offload import LARGE_BYTES

from ninfer_core.api import RequestError
from ninfer_core.testing.scripted_application import exchange, scripted_application
from ninfer_core.testing.scripted_service import ScriptedService

MODEL = {"model": "scripted-model"}
CHAT = MODEL | {"messages": [{"role": "user", "content": "Say OK."}]}
ENDPOINTS: list[tuple[ModuleType, str, dict[str, Any]]] = [
    (openai_chat, "/v1/chat/completions", CHAT),
    (anthropic, "/v1/messages", CHAT | {"max_tokens": 8}),
    (anthropic, "/v1/messages/count_tokens", CHAT),
    (openai_responses, "/v1/responses", MODEL | {"input": "Say OK."}),
    (openai_responses, "/v1/responses/input_tokens", MODEL | {"input": "Say OK."}),
]
ROOMY = 8 * 2**20


class Threads:
    """Which threads came by. The loop's is the one that runs the service."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> None:
        self.seen: set[int] = set()
        original: Callable[..., Any] = getattr(module, name)

        def watched(*arguments: Any) -> Any:
            self.seen.add(threading.get_ident())
            return original(*arguments)

        monkeypatch.setattr(module, name, watched)


@pytest.mark.parametrize(("protocol", "path", "fields"), ENDPOINTS, ids=[path for _, path, _ in ENDPOINTS])
def test_only_large_bodies_leave_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, protocol: ModuleType, path: str, fields: dict[str, Any]
) -> None:
    # `exchange` runs its loop in this thread.
    app = scripted_application(ScriptedService(), [protocol.ninfer_protocol_build], max_request_bytes=ROOMY)
    threads = Threads(monkeypatch, wire_json, "_check_depth")
    assert exchange(app, "POST", path, json=fields).status_code == 200
    assert threads.seen == {threading.get_ident()}
    threads.seen.clear()
    # Ignored by some and refused by others, as the smaller one would be.
    padding = {"padding": "x" * LARGE_BYTES}
    status = exchange(app, "POST", path, json=fields | {"padding": "x"}).status_code
    threads.seen.clear()
    assert exchange(app, "POST", path, json=fields | padding).status_code == status
    assert len(threads.seen) == 1 and threading.get_ident() not in threads.seen


def test_a_small_body_that_continues_much_leaves_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    app = scripted_application(ScriptedService(), [openai_responses.ninfer_protocol_build], max_request_bytes=ROOMY)
    first = exchange(app, "POST", "/v1/responses", json=MODEL | {"input": "x" * LARGE_BYTES}).json()
    threads = Threads(monkeypatch, store, "decode_items")
    answer = exchange(
        app, "POST", "/v1/responses", json=MODEL | {"input": "More.", "previous_response_id": first["id"]}
    )
    assert answer.status_code == 200
    assert threads.seen and threading.get_ident() not in threads.seen


def parts(count: int) -> list[dict[str, Any]]:
    return [{"type": "text", "text": f"number {index}"} for index in range(count)]


@pytest.mark.parametrize(
    "value",
    [
        {"messages": [{"role": "user", "content": parts(8000)}, {"role": "user", "content": "y"}]},
        {"messages": [{"role": "user", "content": "\u00e9\n" * PIECE_BYTES}], "n": 1.5, "on": None},
        {f"key {index}": [index, {"x": [True, index / 3]}] for index in range(9000)},
        {"a": {"b": {"c": {"d": {"e": {"f": {"g": parts(4000)}}}}}}},
    ],
    ids=["parts", "text", "members", "deep"],
)
def test_pieces_make_the_same_value(value: dict[str, Any]) -> None:
    for encoded in (json.dumps(value).encode(), b" \n" * 40 + json.dumps(value, indent=1).encode()):
        assert len(encoded) > PIECE_BYTES
        decoded = decode_object(encoded)
        assert decoded == value
        assert json.dumps(decoded) == json.dumps(value)


def test_no_piece_of_many_parts_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding pieces, which builds no objects, may look at everything; building may not."""
    original, built = msgspec.json.decode, []

    def watched(encoded: Any, **options: Any) -> Any:
        if not options:
            built.append(len(memoryview(encoded)))
        return original(encoded, **options)

    monkeypatch.setattr(msgspec.json, "decode", watched)
    decode_object(json.dumps({"messages": [{"role": "user", "content": parts(50_000)}]}).encode())
    assert max(built) <= PIECE_BYTES


@pytest.mark.parametrize(
    "tail", [b'"\xff"}', b"nul}", b'"open', b"[1,]}", b"{}", b"NaN}", b'"\\ud800"}', b"[" * 5000 + b"]" * 5000 + b"}"]
)
def test_what_is_wrong_in_a_large_body_is_refused(tail: bytes) -> None:
    body = b'{"messages": ' + json.dumps(parts(4000)).encode() + b', "last": ' + tail
    with pytest.raises(RequestError) as raised:
        decode_object(body)
    assert raised.value.code == "invalid_json"


class Item(msgspec.Struct):
    role: str
    tags: list[int] = []


class Whole(msgspec.Struct, rename="camel"):
    many_items: list[Item] | None = None
    either: str | list[dict[str, Any]] | None = None
    anything: list[Any] | None = None


@pytest.mark.parametrize("count", [1, MANY_ITEMS, MANY_ITEMS + 1, 3 * MANY_ITEMS])
def test_long_lists_are_converted_item_by_item_as_short_ones_are(count: int) -> None:
    items = [{"role": "user", "tags": [1, 2]}] * count
    value: dict[str, Any] = {"manyItems": items, "either": [{"a": 1}] * count, "anything": [1, "x"] * count}
    whole = convert(value, Whole)
    assert whole == msgspec.convert(value, Whole)
    assert whole.many_items is not None and isinstance(whole.many_items[-1], Item)
    for broken, path in [
        (value | {"manyItems": [*items, {"role": 1}]}, f"manyItems[{count}].role"),
        (value | {"manyItems": [*items, 7]}, f"manyItems[{count}]"),
        (value | {"either": [*([{}] * count), 7]}, f"either[{count}]"),
    ]:
        with pytest.raises(RequestError) as raised:
            convert(broken, Whole)
        assert raised.value.param == path
        with pytest.raises(RequestError) as raised:
            convert(broken, Whole, "inner")
        assert raised.value.param == f"inner.{path}"
