"""The file of scripted answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from ninfer_core.api.errors import PlanRejected
from ninfer_core.engine.scripted.script import Script, ScriptedAnswer, pieces_of, read_script

ONE = b'{"content": "one"}'
TWO = b'{"match": "x", "raw": "two"}'


def script_of(folder: Path, data: bytes) -> Script:
    path = folder / "script.json"
    path.write_bytes(data)
    return read_script(path)


@pytest.mark.parametrize(
    "data",
    [b"[" + ONE + b"," + TWO + b"]", b'{"answers": [' + ONE + b"," + TWO + b"]}", ONE + b"\n" + TWO + b"\n"],
)
def test_three_forms_say_the_same(tmp_path: Path, data: bytes) -> None:
    first, second = script_of(tmp_path, data).answers
    assert (first.content, second.match, second.raw) == ("one", "x", "two")


def test_one_answer_is_a_script(tmp_path: Path) -> None:
    assert len(script_of(tmp_path, ONE).answers) == 1


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "script_invalid"),
        (b"[]", "it has no answer"),
        (b"{}", "answer 0: says nothing"),
        (b'{"answers": [{"content": ""}, {"match": "x"}]}', "answer 1: says nothing"),
        (b'{"answers": 3}', "Expected `array`"),
        (b"[{}, 1]", "Expected `object`"),
        (b'[{"contents": "x"}]', "contents"),
        (b'[{"content": "x"}, {"raw": "x", "chunks": ["y"]}]', "answer 1: says what it says twice"),
        (b'[{"raw": "x", "content": "y"}]', "twice"),
        (b'[{"chunks": ["x"], "chunk_bytes": 1}]', "cut more than once"),
        (b'[{"raw": "x", "chunk_characters": 0}]', "must be 1 or more"),
        (b'[{"chunks_b64": ["*"]}]', "not base64"),
        (b'[{"delay_ms": 100, "tokens_per_round": 200}]', "a unit may last between 0 and 10000 ms"),
        (b'[{"prompt_delay_ms": -1}]', "prompt_delay_ms"),
        (b'[{"tokens_per_round": 0}]', "tokens_per_round"),
        (b"\xff", "script_invalid"),
    ],
)
def test_what_is_wrong_is_said_before_the_start(tmp_path: Path, data: bytes, said: str) -> None:
    with pytest.raises(PlanRejected) as raised:
        script_of(tmp_path, data)
    assert said in raised.value.message and "docs/scripted.md" in raised.value.message


def test_a_missing_file_is_an_error_of_the_options(tmp_path: Path) -> None:
    with pytest.raises(PlanRejected, match="cannot be read"):
        read_script(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("fields", "pieces"),
    [
        ({}, (b"h\xc3\xa9ll", b"o")),
        ({"chunk_characters": 2}, (b"h\xc3\xa9", b"ll", b"o")),
        ({"chunk_bytes": 2}, (b"h\xc3", b"\xa9l", b"lo")),
        ({"chunks": ["héllo", ""]}, (b"h\xc3\xa9llo", b"")),
        ({"chunks_b64": ["w6k=", "/w=="]}, (b"\xc3\xa9", b"\xff")),
    ],
)
def test_tokens_are_cut_as_asked(fields: dict[str, Any], pieces: tuple[bytes, ...]) -> None:
    assert pieces_of(msgspec.convert(fields, ScriptedAnswer), "héllo") == pieces
