"""A hundred thousand tools are refused before anything looks at one of them, on every protocol."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from ninfer_protocols.anthropic import ninfer_protocol_lower as lower_messages
from ninfer_protocols.openai_chat import ninfer_protocol_lower as lower_chat
from ninfer_protocols.openai_responses import ninfer_protocol_lower as lower_responses

from ninfer_core.api import MAX_TOOLS, GenerationRequest, RequestError, TooManyTools

USER = [{"role": "user", "content": "x"}]


def nested(count: int) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": f"t{index}"}} for index in range(count)]


def flat(count: int) -> list[dict[str, Any]]:
    return [{"type": "function", "name": f"t{index}", "parameters": {}} for index in range(count)]


def schemas(count: int) -> list[dict[str, Any]]:
    return [{"name": f"t{index}", "input_schema": {"type": "object"}} for index in range(count)]


def namespace(count: int) -> list[dict[str, Any]]:
    return [{"type": "namespace", "name": "n", "tools": flat(count)}]


FORMS = [
    (lower_chat, {"messages": USER}, nested),
    (lower_responses, {"model": "m", "input": "x"}, flat),
    (lower_responses, {"model": "m", "input": "x"}, namespace),
    (lower_messages, {"model": "m", "max_tokens": 8, "messages": USER}, schemas),
]


@pytest.mark.parametrize(("lower", "body", "make"), FORMS)
def test_far_too_many_cost_no_more_than_their_json(lower: Any, body: dict[str, Any], make: Any) -> None:
    encoded = json.dumps({**body, "tools": make(100_000)}).encode()
    begin = time.process_time()
    with pytest.raises(TooManyTools) as raised:
        lower(body=encoded)
    assert time.process_time() - begin < 3
    assert (raised.value.code, raised.value.param) == ("too_many_tools", "tools")
    assert str(MAX_TOOLS) in raised.value.message


@pytest.mark.parametrize(("lower", "body", "make"), FORMS)
def test_as_many_as_may_be(lower: Any, body: dict[str, Any], make: Any) -> None:
    most = MAX_TOOLS - (make is namespace)
    request: GenerationRequest = lower(body=json.dumps({**body, "tools": make(most)}).encode())
    assert len(request.tools) == most
    with pytest.raises(TooManyTools):
        lower(body=json.dumps({**body, "tools": make(most + 1)}).encode())


@pytest.mark.parametrize(("lower", "body", "make"), FORMS)
@pytest.mark.parametrize("tools", [3, "x", [3], [None], [{"tools": 3}], {"tools": []}])
def test_what_is_no_list_of_tools_is_still_refused_by_name(
    lower: Any, body: dict[str, Any], make: Any, tools: object
) -> None:
    with pytest.raises(RequestError) as raised:
        lower(body=json.dumps({**body, "tools": tools}).encode())
    assert raised.value.code != "too_many_tools" and (raised.value.param or "").startswith("tools")
