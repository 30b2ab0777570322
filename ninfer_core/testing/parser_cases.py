"""Cases of how model text is read, one JSON object a line: the text, the request's side, and what must come out."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from ninfer_core.api.request import Channel, ToolDefinition

Parsed = dict[str, Any]
"""`reasoning`, `content`, `tool_calls`, `finish_reason`, `fallback_reason`, as `ninfer parse` prints them."""


class ParserCase(msgspec.Struct, frozen=True, kw_only=True):
    """`chunks` or `chunks_b64` is one way in which the text came; the outcome must not depend on it."""

    id: str
    kind: str
    title: str
    model_output: str
    check: dict[str, Any]
    initial_channel: Channel = "content"
    engine_finish: str = "stop"
    tools: list[dict[str, Any]] = []
    tool_choice: Any = None
    stop: list[str] = []
    server_flags: list[str] = []
    chunks: list[str] | None = None
    chunks_b64: list[str] | None = None

    @property
    def tolerant(self) -> bool:
        return "--tolerant-tool-calls" in self.server_flags

    @property
    def pieces(self) -> tuple[bytes, ...]:
        """The bytes as the case has them, in its own cuts where it has some."""
        if self.chunks_b64 is not None:
            return tuple(base64.b64decode(chunk) for chunk in self.chunks_b64)
        chunks = [self.model_output] if self.chunks is None else self.chunks
        return tuple(chunk.encode() for chunk in chunks)

    @property
    def tools_document(self) -> dict[str, Any]:
        return {"tools": self.tools, "tool_choice": self.tool_choice}


def read_parser_cases(path: Path) -> tuple[ParserCase, ...]:
    return tuple(msgspec.convert(json.loads(line), ParserCase) for line in path.read_text().split("\n") if line)


def definition(described: dict[str, Any]) -> ToolDefinition:
    function = described["function"]
    return ToolDefinition(name=function["name"], parameters=function.get("parameters", {}), definition=described)


def check_parsed(case: ParserCase, parsed: Parsed) -> None:
    """Assert everything that the case demands of one outcome. A demand that is not known is an error."""
    for name, expected in case.check.items():
        _CHECKS[name](case, parsed, expected)


def _text(case: ParserCase, expected: Any) -> str:
    assert expected is None or isinstance(expected, str)
    return case.model_output if expected == "<MODEL_OUTPUT>" else expected or ""


def _calls(case: ParserCase, parsed: Parsed, expected: list[Parsed]) -> None:
    assert [call["name"] for call in parsed["tool_calls"]] == [call["name"] for call in expected]
    for call, wanted in zip(parsed["tool_calls"], expected, strict=True):
        if "arguments" in wanted:
            assert _typed(call["arguments"]) == _typed(wanted["arguments"])


def _typed(value: Any) -> Any:
    """Values of which 1, 1.0 and true differ, as they do in JSON text. Order of members does not count."""
    if isinstance(value, dict):
        return {key: _typed(each) for key, each in value.items()}
    return [_typed(each) for each in value] if isinstance(value, list) else (type(value).__name__, value)


def _calls_in(case: ParserCase, parsed: Parsed, expected: list[list[Parsed]]) -> None:
    assert list(parsed["tool_calls"]) in expected


def _exact(field: str) -> Callable[[ParserCase, Parsed, Any], None]:
    def check(case: ParserCase, parsed: Parsed, expected: Any) -> None:
        assert parsed[field] == _text(case, expected), field

    return check


def _stripped(field: str) -> Callable[[ParserCase, Parsed, Any], None]:
    def check(case: ParserCase, parsed: Parsed, expected: Any) -> None:
        assert parsed[field].strip() == expected, field

    return check


def _contains(field: str) -> Callable[[ParserCase, Parsed, Any], None]:
    def check(case: ParserCase, parsed: Parsed, expected: Any) -> None:
        assert expected in parsed[field], field

    return check


def _prefix(case: ParserCase, parsed: Parsed, expected: str) -> None:
    assert parsed["content"].startswith(expected)


def _fallback(case: ParserCase, parsed: Parsed, expected: str | None) -> None:
    assert expected is None or parsed["fallback_reason"] == expected


def _arguments(parsed: Parsed) -> dict[str, Any]:
    (call,) = parsed["tool_calls"]
    arguments = call["arguments"]
    assert isinstance(arguments, dict)
    return arguments


def _strict_json(case: ParserCase, parsed: Parsed, expected: bool) -> None:
    json.dumps(parsed, allow_nan=False).encode()


def _forbidden(case: ParserCase, parsed: Parsed, expected: list[str]) -> None:
    text = json.dumps(parsed["tool_calls"]) + parsed["content"] + parsed["reasoning"]
    assert not [each for each in expected if each in text]


def _argument_subset(case: ParserCase, parsed: Parsed, expected: dict[str, Any]) -> None:
    assert _typed(expected).items() <= _typed(_arguments(parsed)).items()


def _argument_lengths(case: ParserCase, parsed: Parsed, expected: dict[str, int]) -> None:
    assert {key: len(_arguments(parsed)[key]) for key in expected} == expected


def _argument_order(case: ParserCase, parsed: Parsed, expected: list[str]) -> None:
    assert list(_arguments(parsed)) == expected


def _number_spelling(case: ParserCase, parsed: Parsed, expected: str) -> None:
    (value,) = _arguments(parsed).values()
    assert json.dumps(value) == expected


def _no_text_loss(case: ParserCase, parsed: Parsed, expected: bool) -> None:
    """Every word of the output stands in the text or in a call, the words of tags aside."""
    words = set(re.findall(r"\w+", re.sub(r"</?(?:think|tool_call|function|parameter)\b", "", case.model_output)))
    assert words <= set(re.findall(r"\w+", json.dumps(parsed, ensure_ascii=False)))


def _not_both(case: ParserCase, parsed: Parsed, expected: bool) -> None:
    assert not parsed["tool_calls"] or "<tool_call>" not in parsed["content"] + parsed["reasoning"]


def _by_the_caller(case: ParserCase, parsed: Parsed, expected: Any) -> None:
    """Time limits, and that streamed and aggregate text agree: the tests compare cuts and measure for every case."""


_CHECKS: dict[str, Callable[[ParserCase, Parsed, Any], None]] = {
    "tool_calls": _calls,
    "tool_calls_in": _calls_in,
    "content": _exact("content"),
    "content_strip": _stripped("content"),
    "content_contains": _contains("content"),
    "content_prefix": _prefix,
    "reasoning": _exact("reasoning"),
    "reasoning_strip": _stripped("reasoning"),
    "reasoning_contains": _contains("reasoning"),
    "finish_reason": _exact("finish_reason"),
    "fallback_reason": _fallback,
    "arguments_must_be_strict_json": _strict_json,
    "valid_utf8_json": _strict_json,
    "forbid_substrings": _forbidden,
    "arguments_contains": _argument_subset,
    "argument_lengths": _argument_lengths,
    "argument_order": _argument_order,
    "number_spelling": _number_spelling,
    "no_text_loss": _no_text_loss,
    "not_both_text_and_call": _not_both,
    "max_seconds": _by_the_caller,
    "stream_equals_aggregate": _by_the_caller,
}
