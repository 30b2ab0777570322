"""`ninfer generate` and `ninfer chat` on a tiny random model, the engine inline."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from ninfer_models.qwen_hybrid.frontend.frontend import QwenFrontend

from ninfer_core.api.request import Message, TextPart, ToolCall
from ninfer_core.cli.generate import generate
from ninfer_core.cli.main import main
from ninfer_core.cli.messages_file import read_messages
from ninfer_core.testing.tiny import write_tiny_artifact


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tiny_artifact(tmp_path_factory.mktemp("artifact") / "tiny.ninfer"))


def ninfer(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    status = main(list(arguments))
    captured = capsys.readouterr()
    return status, captured.out, captured.err


OPTIONS = ("--device", "cpu", "--max-context", "512", "--max-new", "24", "--greedy")


def test_the_answer_is_on_stdout_and_the_report_on_stderr(artifact: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("generate", artifact, "--prompt", "hi", "--no-thinking", *OPTIONS)
    status, answer, said = ninfer(*words, capsys=capsys)
    assert status == 0
    assert answer.strip()
    assert re.search(r"^\d+ prompt tokens at .*, 24 output tokens at .*, ended by output_limit$", said, re.MULTILINE)
    assert "\x1b" not in answer + said
    assert ninfer(*words, capsys=capsys)[1] == answer


def test_reasoning_is_not_part_of_the_answer(artifact: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, answer, said = ninfer("generate", artifact, "--prompt", "hi", *OPTIONS, capsys=capsys)
    assert status == 0
    assert answer == ""
    assert "(24 reasoning)" in said and len(said.splitlines()[0]) > 5


def test_a_conversation_from_a_file(artifact: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "messages.json"
    path.write_text(json.dumps({"messages": [{"role": "user", "content": "hi"}]}))
    from_file = ninfer("generate", artifact, "--messages", str(path), "--no-thinking", *OPTIONS, capsys=capsys)
    typed = ninfer("generate", artifact, "--prompt", "hi", "--no-thinking", *OPTIONS, capsys=capsys)
    assert from_file[:2] == typed[:2]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ((), 2, "exactly one of --prompt and --messages"),
        (("--prompt", "x", "--stop", ""), 2, "--stop"),
        (("--prompt", "x", "--max-new", "-1"), 2, "--max-new"),
        (("--prompt", "x", "--spec", "mtp"), 2, "--spec mtp"),
        (("--prompt", "x", "--temperature", "3"), 2, "--temperature"),
        (("--prompt", "x" * 600, "--max-context", "512"), 1, "context_length_exceeded"),
        (("--prompt", "x", "--reasoning-effort", "silly"), 1, "reasoning_effort_not_supported"),
    ],
)
def test_what_cannot_be_is_said(
    artifact: str, arguments: Sequence[str], status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = ninfer("generate", artifact, "--device", "cpu", *arguments, capsys=capsys)
    assert found[0] == status
    assert said in found[2]


@pytest.mark.parametrize("error", [KeyError, SystemExit])
def test_a_family_that_fails_on_a_prompt_is_a_line_and_not_a_traceback(
    artifact: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(self: object, request: object, defaults: object, *, most_tokens: object) -> None:
        raise error("hi there")

    monkeypatch.setattr(QwenFrontend, "prepare", fail)
    words = ("generate", artifact, "--prompt", "hi there", *OPTIONS)
    status, answer, said = ninfer(*words, capsys=capsys)
    assert (status, answer) == (1, "")
    assert "generation_failed: the model family's frontend failed and made no prompt of this request" in said
    assert f"({error.__name__})" in said
    assert "Traceback" not in said and "File" not in said and "hi there" not in said
    status, _, said = ninfer("--traceback", *words, capsys=capsys)
    assert status == 1 and "in fail" in said


def test_help_names_what_a_server_alone_has_not() -> None:
    text = click.Context(generate).get_help()
    assert "[ARTIFACT]" not in text.partition("Options")[2]
    assert "--prompt" in text and "--kv-dtype" in text and "--port" not in text and "--api-key" not in text


def test_messages_files(tmp_path: Path) -> None:
    path = tmp_path / "messages.json"
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"b": 1}'}}
    turns = [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": None, "reasoning_content": "r", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ]
    path.write_text(json.dumps(turns))
    assert read_messages(path) == (
        Message(role="user", content=(TextPart("a"), TextPart("b"))),
        Message(
            role="assistant",
            reasoning="r",
            tool_calls=(ToolCall(name="f", arguments={"b": 1}, call_id="c1"),),
        ),
        Message(role="tool", content=(TextPart("done"),), call_id="c1"),
    )


DEEP = '[{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {"a": ' + "[" * 100_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ("\udcff", "not valid JSON"),
        (
            f'[{{"role": "assistant", "tool_calls": [{{"function": {{"name": "f", "arguments": {{"a": {DEEP}',
            "too deeply",
        ),
        ("3", "Expected `object`"),
        ('{"turns": []}', "turns"),
        ('[{"role": "robot"}]', "robot"),
        ('[{"role": "user", "extra": 1}]', "extra"),
    ],
)
def test_a_messages_file_that_is_wrong_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "messages.json"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(click.BadParameter, match=f"{re.escape(str(path))}: .*{said}"):
        read_messages(path)


def test_a_chat_keeps_its_history_and_survives_an_interruption(artifact: str) -> None:
    # A shell that runs tests in the background has its programs ignore the signal.
    heeding = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    program = f"import sys; {heeding}; from ninfer_core.cli.main import main; sys.exit(main())"
    words = ["chat", artifact, "--device", "cpu", "--greedy", "--no-thinking", "--max-context", "4096"]
    started = subprocess.Popen(
        [sys.executable, "-u", "-c", program, *words, "--default-max-tokens", "3000"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"}, text=True,
    )  # fmt: skip
    assert started.stdin is not None and started.stdout is not None
    try:
        started.stdin.write("hi\n")
        started.stdin.flush()
        assert len(started.stdout.read(8)) == 8, "an answer has begun"
        time.sleep(0.2)
        started.send_signal(signal.SIGINT)
        _, said = started.communicate("/help\n/reset\n/quit\n", timeout=60)
    finally:
        started.kill()
    assert started.returncode == 0
    assert "stopped" in said and said.count("/reset forgets") == 2
