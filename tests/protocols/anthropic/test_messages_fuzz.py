"""Whatever a client sends is either understood or refused by a typed error that names a field."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from ninfer_protocols.anthropic.errors import anthropic_wire_error
from ninfer_protocols.anthropic.lowering import lower, lower_prompt
from ninfer_protocols.anthropic.requests import MessagesRequest
from ninfer_protocols.anthropic.thinking import EffortRules

from ninfer_core.api import GenerationRequest, Message, RequestError

EFFORTS = EffortRules(exposed=("low",), map_highest=True)
WORDS = [
    "text", "image", "tool_use", "tool_result", "thinking", "redacted_thinking", "document", "ephemeral", "5m", "1h",
    "user", "assistant", "system", "auto", "none", "any", "enabled", "disabled", "adaptive", "custom", "t1", "base64",
    "url", "iVBORw0KGgo=", "low", "x-anthropic-billing-header: x", "",
]  # fmt: skip
KEYS = [
    "type", "text", "thinking", "data", "id", "tool_use_id", "name", "input", "content", "is_error", "source",
    "cache_control", "ttl", "media_type", "url", "budget_tokens", "effort", "input_schema", "strict", "transformations",
]  # fmt: skip
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=10,
)
IDS = st.sampled_from(["t1", "t2"])
BLOCKS = (
    st.fixed_dictionaries({"type": st.just("text"), "text": st.text(max_size=3)})
    | st.fixed_dictionaries({"type": st.just("tool_use"), "id": IDS, "name": st.just("f"), "input": st.just({})})
    | st.fixed_dictionaries({"type": st.just("tool_result"), "tool_use_id": IDS}, optional={"content": VALUES})
    | st.fixed_dictionaries({"type": st.sampled_from(WORDS)}, optional=dict.fromkeys(KEYS[1:], VALUES))
    | VALUES
)
MESSAGES = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", "system"]),
        "content": st.text(max_size=3) | st.lists(BLOCKS, max_size=3),
    }
)
FIELDS = sorted({*MessagesRequest.__struct_fields__} - {"messages", "model"})


def outcome(fields: dict[str, Any]) -> GenerationRequest | RequestError:
    body = json.dumps({"model": "m"} | fields).encode()
    found: GenerationRequest | RequestError
    try:
        found = lower(body, EFFORTS).request
    except RequestError as error:
        found = error
    try:
        lower_prompt(body, EFFORTS)
    except RequestError as error:
        assert isinstance(found, RequestError), error
    return found


@given(st.lists(MESSAGES, max_size=5))
def test_any_history(messages: list[Any]) -> None:
    found = outcome({"messages": messages})
    if isinstance(found, RequestError):
        assert anthropic_wire_error(found).status == 400
        assert found.param is not None and found.param.startswith("messages")
        return
    # Whatever was accepted: every call is answered in order, and results without calls follow an empty question.
    calls: list[str | None] = []
    for index, message in enumerate(found.messages):
        if message.role == "tool" and calls:
            assert message.call_id == calls.pop(0)
        elif message.role == "tool":
            before = found.messages[index - 1]
            assert before.role == "tool" or before == Message(role="user")
        else:
            assert not calls
        calls = [call.call_id for call in message.tool_calls] or calls


@given(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4))
def test_any_fields(fields: dict[str, Any]) -> None:
    found = outcome({"messages": [{"role": "user", "content": "x"}]} | fields)
    if isinstance(found, RequestError):
        assert anthropic_wire_error(found).status == 400
        assert found.param is not None and found.param.split(".")[0].split("[")[0] in fields
