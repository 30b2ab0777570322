"""Whatever a client sends is either understood or refused by a typed error that says which field; whatever a model
says comes out whole."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from ninfer_protocols.openai_responses.items import decode_items
from ninfer_protocols.openai_responses.lowering import Lowering, ResponseCall
from ninfer_protocols.openai_responses.output import OutputWriter
from ninfer_protocols.openai_responses.requests import KNOWN_FIELDS
from ninfer_protocols.openai_responses.responses import ResponseObject
from ninfer_protocols.openai_responses.store import ResponseStore
from ninfer_protocols.openai_responses.tools import ToolSet
from ninfer_protocols.wire.errors import openai_wire_error

from ninfer_core.api import RequestError, TemplateOptions, ToolCallDelta, Usage

WORDS = [
    "input_text",
    "output_text",
    "function",
    "namespace",
    "auto",
    "none",
    "user",
    "assistant",
    "completed",
    "{}",
    "c1",
    "c2",
    "allowed_tools",
    "explicit",
    "reasoning_text",
    "data:image/png;base64,AA",
]
KEYS = ["type", "text", "name", "namespace", "arguments", "image_url", "mode", "tools", "content", "format", "effort"]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


def usually(strategy: Any) -> st.SearchStrategy[Any]:
    """Seldom anything else."""
    return st.integers(0, 11).flatmap(lambda roll: VALUES if roll == 0 else strategy)


def objects(fixed: dict[str, Any], *optional: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(fixed, optional=dict.fromkeys(optional, usually(st.none() | st.text(max_size=3))))


PARTS = objects(
    {"type": usually(st.sampled_from(["input_text", "output_text", "refusal", "input_image", "input_video"]))},
    "text",
    "refusal",
    "image_url",
    "video_url",
    "detail",
    "file_id",
    "prompt_cache_breakpoint",
)
CALL_IDS = st.sampled_from(["c1", "c2"])
ITEMS = st.one_of(
    objects(
        {
            "role": usually(st.sampled_from(["user", "assistant", "system", "developer"])),
            "content": usually(st.lists(PARTS, max_size=2) | st.text(max_size=3)),
        },
        "id",
        "status",
        "phase",
        "type",
    ),
    objects(
        {
            "type": st.just("reasoning"),
            "content": usually(
                st.lists(objects({"type": st.just("reasoning_text"), "text": usually(st.text(max_size=3))}), max_size=2)
            ),
        },
        "id",
        "summary",
        "encrypted_content",
        "status",
    ),
    objects(
        {
            "type": st.just("function_call"),
            "call_id": usually(CALL_IDS),
            "name": usually(st.just("look")),
            "arguments": usually(st.sampled_from(["{}", '{"a":1e3}', "[", '{"a":NaN}'])),
        },
        "id",
        "namespace",
        "status",
    ),
    objects(
        {
            "type": st.just("function_call_output"),
            "call_id": usually(CALL_IDS),
            "output": usually(st.text(max_size=3) | st.lists(PARTS, max_size=2)),
        },
        "id",
        "name",
        "namespace",
        "status",
    ),
)
FUNCTIONS = objects(
    {"type": usually(st.just("function")), "name": usually(st.sampled_from(["look", "go"]))},
    "description",
    "parameters",
    "strict",
    "output_schema",
    "allowed_callers",
    "defer_loading",
)
TOOLS = FUNCTIONS | objects(
    {"type": st.just("namespace"), "name": usually(st.just("n")), "tools": usually(st.lists(FUNCTIONS, max_size=2))},
    "description",
)


def check(fields: dict[str, Any]) -> None:
    """Either an error of the client's, or a call whose answer can be written and stored."""
    store = ResponseStore(max_records=1, max_bytes=10**6)
    body = json.dumps({"model": "tiny", "input": "x"} | fields).encode()
    try:
        call: ResponseCall = Lowering(store, model_id="tiny", capabilities=None, codex=len(body) % 2 == 0).create(body)
    except RequestError as error:
        assert 400 <= openai_wire_error(error).status < 500
        assert msgspec.json.encode(openai_wire_error(error).body)
        return
    usage = Usage(prompt_tokens=1, cached_tokens=0, output_tokens=0, reasoning_tokens=0)
    written = ResponseObject(call, "tiny", TemplateOptions()).finished("stop_token", (), usage)
    assert json.loads(msgspec.json.encode(written))["status"] == "completed"
    assert len({item.id for item in decode_items(call.input_json)}) == len(decode_items(call.input_json))


@settings(max_examples=400)
@given(usually(st.lists(usually(ITEMS), max_size=5)))
def test_any_input(given_input: Any) -> None:
    check({"input": given_input})


@settings(max_examples=300)
@given(usually(st.lists(TOOLS, max_size=3)), VALUES)
def test_any_tools(tools: Any, choice: Any) -> None:
    check({"tools": tools, "tool_choice": choice})
    check({"tools": tools})


@given(st.dictionaries(st.sampled_from(sorted(KNOWN_FIELDS - {"model"})), VALUES, max_size=4))
def test_any_fields(fields: dict[str, Any]) -> None:
    check(fields)


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.sampled_from(["reasoning", "content", "call"]), st.text(min_size=1, max_size=4)), max_size=12)
)
def test_deltas_are_the_items(said: list[tuple[Any, str]]) -> None:
    writer = OutputWriter(ToolSet(), include_encrypted=True)
    events = []
    for index, (kind, text) in enumerate(said):
        if kind == "call":
            events += writer.call(ToolCallDelta(index=index, name="look", arguments={"t": text}))
        else:
            events += writer.text(kind, text)
    events += writer.close("completed")
    deltas: dict[int, str] = {}
    for event in events:
        if event.type.endswith(".delta"):
            index = event.fields["output_index"]
            deltas[index] = deltas.get(index, "") + event.fields["delta"]
    for index, item in enumerate(json.loads(msgspec.json.encode(writer.items()))):
        assert deltas[index] == (item["arguments"] if "arguments" in item else item["content"][0]["text"])
    assert len(deltas) == len(writer.items())
