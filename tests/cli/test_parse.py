from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ninfer_core.cli.main import main
from ninfer_core.testing.parser_cases import ParserCase, check_parsed, read_parser_cases
from ninfer_core.testing.toy_artifacts import write_toy_family

CASES = read_parser_cases(Path(__file__).parents[1] / "cases" / "parser.jsonl")
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"properties": {"at": {"type": "string"}}}}}
CALL = "<tool_call>\n<function=look>\n<parameter=at>\nsky\n</parameter>\n</function>\n</tool_call>"
LOOK = [{"name": "look", "arguments": {"at": "sky"}}]


class Terminal:
    """Runs the command with bytes on stdin."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        self._folder = folder

    def tools(self, document: Any) -> str:
        path = self._folder / "tools.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return str(path)

    def fails(self, data: bytes, *words: str) -> str:
        code, out, err = self._run(data, words)
        assert code == 2 and not out
        return " ".join(err.split())

    def parse(self, data: bytes, *words: str) -> dict[str, Any]:
        code, out, err = self._run(data, words)
        assert (code, err) == (0, "")
        value = json.loads(out, parse_constant=lambda constant: pytest.fail(f"{constant} is not JSON"))
        assert isinstance(value, dict)
        return value

    def _run(self, data: bytes, words: tuple[str, ...]) -> tuple[int, str, str]:
        self._capsys.readouterr()
        self._monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        code = main(["parse", *words])
        return code, *self._capsys.readouterr()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Terminal:
    monkeypatch.delenv("NINFER_PLUGINS", raising=False)
    return Terminal(monkeypatch, capsys, tmp_path)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_case_has_its_outcome_on_the_command_line(case: ParserCase, terminal: Terminal) -> None:
    words = ["--channel", case.initial_channel, "--finish", case.engine_finish]
    words += [word for stop in case.stop for word in ("--stop", stop)]
    words += ["--tolerant"] if case.tolerant else []
    words += ["--tools", terminal.tools(case.tools_document)] if case.tools else []
    data = b"".join(case.pieces)
    whole = terminal.parse(data, *words)
    check_parsed(case, whole)
    middle = len(data) // 2
    assert terminal.parse(data, *words, "--cut", f"{middle},{middle + 1},1") == whole
    assert terminal.parse(data, *words, "--cut-every", "1" if len(data) < 4096 else "7") == whole


def test_the_members_of_the_output_are_these_five(terminal: Terminal) -> None:
    text = f"why\n</think>\n\nLooking.\n{CALL}".encode()
    assert terminal.parse(text, "--channel", "reasoning", "--tools", terminal.tools([TOOL])) == {
        "reasoning": "why",
        "content": "Looking.",
        "tool_calls": LOOK,
        "finish_reason": "tool_calls",
        "fallback_reason": "none",
    }


def test_nothing_on_stdin_is_an_empty_answer(terminal: Terminal) -> None:
    for finish in ("stop", "length"):
        parsed = terminal.parse(b"", "--finish", finish)
        assert (parsed["content"], parsed["reasoning"], parsed["finish_reason"]) == ("", "", finish)


def test_without_tools_a_call_is_text(terminal: Terminal) -> None:
    parsed = terminal.parse(CALL.encode())
    assert (parsed["content"], parsed["tool_calls"]) == (CALL, [])


@pytest.mark.contract("IMPL-5")
def test_a_limit_goes_before_calls_and_a_stop_string_before_a_limit(terminal: Terminal) -> None:
    tools = terminal.tools([TOOL])
    text = CALL.encode()
    assert terminal.parse(text, "--tools", tools, "--finish", "length")["finish_reason"] == "length"
    stopped = terminal.parse(text + b"END", "--tools", tools, "--finish", "length", "--stop", "END")
    assert (stopped["finish_reason"], stopped["tool_calls"]) == ("tool_calls", LOOK)
    assert terminal.parse(b"abc END", "--finish", "length", "--stop", "END")["finish_reason"] == "stop"


def test_cuts_may_lie_in_a_character_beyond_the_end_and_in_any_order(terminal: Terminal) -> None:
    data = "a漢🚀b".encode()
    for cut in ("2,3", "9,2,2,0", "6,5,4,3,2,1", "100000"):
        assert terminal.parse(data, "--cut", cut)["content"] == "a漢🚀b"


def test_bytes_that_are_no_text_become_replacement_characters(terminal: Terminal) -> None:
    assert terminal.parse(b"a\xffb\xf0\x9f", "--cut-every", "1")["content"] == "a\ufffdb\ufffd"


@pytest.mark.parametrize(
    "document",
    [
        [TOOL],
        {"tools": [TOOL]},
        {"tools": [TOOL], "tool_choice": "auto"},
        [{"type": "function", "name": "look", "parameters": {"properties": {"at": {"type": "string"}}}}],
        [{"name": "look", "description": "x", "input_schema": {"properties": {"at": {"type": "string"}}}}],
        {
            "tools": [TOOL, {"name": "go"}],
            "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [TOOL]}},
        },
        {
            "tools": [TOOL, {"name": "go"}],
            "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "look"}]},
        },
    ],
)
def test_tools_have_the_form_of_any_protocol(document: Any, terminal: Terminal) -> None:
    assert terminal.parse(CALL.encode(), "--tools", terminal.tools(document))["tool_calls"] == LOOK


@pytest.mark.contract("TOOL-11", "TOOL-16")
def test_a_choice_takes_tools_out_of_the_effective_set(terminal: Terminal) -> None:
    none = terminal.tools({"tools": [TOOL], "tool_choice": "none"})
    assert terminal.parse(CALL.encode(), "--tools", none)["fallback_reason"] == "none"
    other = terminal.tools(
        {"tools": [TOOL, {"name": "go"}], "tool_choice": {"type": "allowed_tools", "tools": [{"name": "go"}]}}
    )
    parsed = terminal.parse(CALL.encode(), "--tools", other)
    assert (parsed["tool_calls"], parsed["fallback_reason"]) == ([], "undeclared_tool")


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("nonsense", "it is not valid JSON"),
        ("[" * 100_000, "it nests too deeply"),
        ("3", "Expected `array`"),
        ("{}", "Expected `array`, got `null`"),
        ('[{"type": "web_search"}]', "missing required field `name`"),
        ('[{"function": {}}]', "missing required field `name`"),
        ('{"tools": [], "tool_choice": "required"}', 'it can be "auto", "none" or an object of type "allowed_tools"'),
        ('{"tools": [], "tool_choice": {"type": "allowed_tools"}}', "Expected `array`"),
    ],
)
def test_a_tools_file_that_cannot_be_read_is_named_with_what_is_wrong(
    document: str, said: str, terminal: Terminal
) -> None:
    error = terminal.fails(b"", "--tools", terminal.tools(document))
    assert "Invalid value for --tools" in error and "tools.json" in error and said in error


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--cut", "1,x"), "'1,x' is not a list of numbers such as 3,10,11"),
        (("--cut", "3,-1"), "an offset is 0 or more"),
        (("--cut-every", "0"), "0 is not in the range x>=1"),
        (("--stop", ""), "an empty text would match everywhere"),
        (("--channel", "thinking"), "'thinking' is not one of 'reasoning', 'content'"),
        (("--finish", "tool_calls"), "'tool_calls' is not one of 'stop', 'length'"),
        (("--tools", "/nowhere.json"), "does not exist"),
        (("--family", "qwen"), "no family plugin 'qwen'"),
    ],
)
def test_wrong_words_are_refused_with_the_reason(words: tuple[str, ...], said: str, terminal: Terminal) -> None:
    assert said in terminal.fails(b"", *words)


def test_a_text_beyond_the_bound_is_refused(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ninfer_core.cli.parse.LARGEST_INPUT_BYTES", 8)
    assert terminal.parse(b"12345678")["content"] == "12345678"
    code, out, err = terminal._run(b"123456789", ())
    assert code == 1 and not out and "over 8 bytes" in err


def test_the_family_is_the_only_one_installed_the_one_named_or_the_one_of_the_artifact(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert terminal.parse(b"a", "--family", "qwen-hybrid")["content"] == "a"
    assert terminal.parse(b"a", "dummy:qwen3.8-27b")["content"] == "a"
    folder = tmp_path / "plugins"
    folder.mkdir()
    write_toy_family(folder, package="cli-parse-toy")
    monkeypatch.syspath_prepend(str(folder))
    error = terminal.fails(b"a")
    assert "--family NAME" in error and "qwen-hybrid@ninfer-models" in error and "toy@cli-parse-toy" in error
    assert terminal.parse(b"a", "dummy:qwen3.8-27b")["content"] == "a"
    assert "ninfer_family_output_format" in terminal._run(b"a", ("--family", "toy"))[2]


def test_the_command_needs_no_torch(tmp_path: Path) -> None:
    (tmp_path / "tools.json").write_text(json.dumps([TOOL]))
    script = "import sys; from ninfer_core.cli.main import main; sys.exit(main() or 'torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script, "parse", "--tools", str(tmp_path / "tools.json")],
        input=CALL.encode(),
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["tool_calls"] == LOOK
