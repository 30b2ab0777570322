"""Whatever a client sends is either understood or refused by a typed error that says which field."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ninfer_protocols.openai_chat.lowering import ChatCall, lower
from ninfer_protocols.openai_chat.requests import ChatMessage, ChatRequest
from ninfer_protocols.openai_chat.unsupported import RULES
from ninfer_protocols.wire.errors import openai_wire_error

from ninfer_core.api import RequestError

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(["text", "function", "auto", "none", "user", "assistant", "tool", "image_url", "{}"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "text", "function", "name", "arguments", "url", "image_url", "mode"])
            | st.text(max_size=3),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
PARTS = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("type", "text", "refusal", "image_url", "video_url", "prompt_cache_breakpoint"), VALUES)
)  # fmt: skip
MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "developer", "user", "assistant", "tool", "function"]) | VALUES},
    optional={
        name: (VALUES | st.lists(PARTS, max_size=3) if name == "content" else VALUES)
        for name in ChatMessage.__struct_fields__
        if name != "role"
    },
)
FIELDS = sorted({*ChatRequest.__struct_fields__, *(rule.field for rule in RULES)} - {"messages"})


def outcome(fields: dict[str, Any]) -> ChatCall | RequestError:
    try:
        return lower(json.dumps(fields).encode(), "tiny")
    except RequestError as error:
        return error


BUSY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no finding."""


@BUSY
@given(st.lists(MESSAGES, max_size=3))
def test_any_history(messages: list[Any]) -> None:
    found = outcome({"messages": messages})
    if isinstance(found, RequestError):
        assert 400 <= openai_wire_error(found).status < 500
        assert found.param is not None and found.param.startswith("messages")
    else:
        assert len(found.request.messages) == len(messages)


@BUSY
@given(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4))
def test_any_fields(fields: dict[str, Any]) -> None:
    found = outcome({"messages": [{"role": "user", "content": "x"}]} | fields)
    if isinstance(found, RequestError):
        assert 400 <= openai_wire_error(found).status < 500
        assert found.param is not None and found.param.split(".")[0].split("[")[0] in fields
