from __future__ import annotations

import json
import time

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ninfer_protocols.wire.json import MANY_ITEMS, MAX_DEPTH, convert, decode_object

from ninfer_core.api import RequestError

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'"x"',
        b"{",
        b"3",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": -Infinity}',
        b'{"a": 1e999}',
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a": "\\ud800"}',
        b'{"a": "\\ud800 and more text"}',
        b'{"a": "\\udc00\\ud800"}',
        b'{"\\ud800": 1}',
        b'{"a": "\xff"}',
        b'{"a": "\xed\xa0\x80"}',
        b'{"\xc3": 1}',
        b"\xef\xbb\xbf{}",
        b'{"a": 1} x',
        b'{"a": "\x00"}',
    ],
)
def test_what_is_no_strict_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(RequestError) as raised:
        decode_object(body)
    assert raised.value.code == "invalid_json"


@pytest.mark.parametrize(
    ("body", "escape", "place"),
    [
        (rb'{"a": "\ud83d"}', r"\ud83d", 7),
        (rb'{"a": "\uDE00x"}', r"\uDE00", 7),
        (rb'{"\\\ud83d and \ud83d\ude00": 1}', r"\ud83d", 4),
        (rb'{"a": "\ud83d\ud83d\ude00"}', r"\ud83d", 7),
        (rb'{"a": "\ud83d\ude00\ude00"}', r"\ude00", 19),
    ],
)
def test_half_a_pair_is_called_so(body: bytes, escape: str, place: int) -> None:
    with pytest.raises(RequestError) as raised:
        decode_object(body)
    assert f"{escape} at byte {place} is half of a surrogate pair" in raised.value.message


@pytest.mark.parametrize("body", [rb'{"a": "\\ud83d", "b": NaN}', rb'{"a": "\ud83d\ude00", "b": NaN}'])
def test_what_is_no_half_pair_is_not_blamed(body: bytes) -> None:
    with pytest.raises(RequestError, match="JSON is malformed: invalid character"):
        decode_object(body)


def test_pairs_escapes_and_duplicates() -> None:
    assert decode_object(b'{"a": "ok \\ud83d\\ude00 \\u0000"}') == {"a": "ok \U0001f600 \x00"}
    assert decode_object(b'{"a": 4, "a": 5}') == {"a": 5}


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_depth_is_bounded_and_cheap(opening: bytes) -> None:
    begin = time.monotonic()
    for depth in (MAX_DEPTH + 1, 900, 100_000):
        closing = (b"]" if opening == b"[" else b"}") * depth
        with pytest.raises(RequestError, match="nests deeper"):
            decode_object(b'{"x":' + opening * depth + b"0" + closing + b"}")
    assert time.monotonic() - begin < 2


def test_the_deepest_legal_body() -> None:
    depth = MAX_DEPTH - 1
    assert decode_object(b'{"x":' + b"[" * depth + b"]" * depth + b"}")


class Point(msgspec.Struct):
    x: int
    labels: list[str] | None = None
    note: str | None = None


class Line(msgspec.Struct):
    begin: Point


@pytest.mark.parametrize(
    ("value", "where", "param", "message"),
    [
        ({}, "", "begin", "begin: is missing"),
        ({"begin": {}}, "lines[1]", "lines[1].begin.x", "lines[1].begin.x: is missing"),
        ({"begin": {"x": 1.5}}, "", "begin.x", "begin.x: Expected integer, got number"),
        ({"begin": {"x": 1, "note": 1}}, "", "begin.note", "begin.note: Expected string | null, got integer"),
        ({"begin": {"x": True}}, "", "begin.x", "begin.x: Expected integer, got boolean"),
        ({"begin": []}, "", "begin", "begin: Expected object, got array"),
    ],
)
def test_a_field_that_is_missing_or_wrong_is_named_in_words_of_json(
    value: dict[str, object], where: str, param: str, message: str
) -> None:
    with pytest.raises(RequestError) as raised:
        convert(value, Line, where)
    assert (raised.value.code, raised.value.param, raised.value.message) == ("invalid_type", param, message)


def test_ten_thousand_small_records_take_no_second() -> None:
    begin = time.process_time()
    for index in range(10_000):
        assert convert({"x": index, "labels": ["a"]}, Point).x == index
    assert time.process_time() - begin < 1


def test_long_lists_are_converted_as_short_ones() -> None:
    labels = [str(index) for index in range(MANY_ITEMS + 1)]
    assert convert({"x": 1, "labels": labels}, Point) == Point(1, labels)
    with pytest.raises(RequestError) as raised:
        convert({"x": 1, "labels": [*labels, 3]}, Point, "points[2]")
    assert raised.value.param == f"points[2].labels[{MANY_ITEMS + 1}]"


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.text(), JSON_VALUES, max_size=5))
def test_every_object_comes_back_in_its_order(value: dict[str, object]) -> None:
    decoded = decode_object(json.dumps(value).encode())
    assert decoded == value
    assert list(decoded) == list(value)


@given(st.binary(max_size=60))
def test_no_bytes_raise_anything_else(body: bytes) -> None:
    try:
        decode_object(body)
    except RequestError as error:
        assert error.code == "invalid_json"


def test_what_is_not_the_body_is_not_called_so() -> None:
    for text in (b"{", b"[]"):
        with pytest.raises(RequestError, match=r"^the string "):
            decode_object(text, "the string")
