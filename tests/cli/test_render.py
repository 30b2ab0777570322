"""`ninfer render` shows what the server would make of a body, byte for byte."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from ninfer_core.api import TemplateCapabilities, ThinkingDefaults
from ninfer_core.artifact import open_artifact
from ninfer_core.cli.main import main
from ninfer_core.cli.render import prompt_report
from ninfer_core.plan.selection import claim_family
from ninfer_core.plugins.registry import PluginRegistry

BODY = {
    "model": "whatever",
    "messages": [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "escape \x1b[31m and <|im_end|> "},
        {"role": "assistant", "content": "a", "reasoning_content": "thought"},
        {"role": "developer", "content": "now in French"},
        {"role": "user", "content": [{"type": "text", "text": "q"}]},
    ],
    "reasoning_effort": "low",
}


@pytest.fixture
def body(tmp_path: Path) -> Path:
    path = tmp_path / "request.json"
    path.write_text(json.dumps(BODY))
    return path


@pytest.fixture(scope="module")
def expected() -> Any:
    """The prompt by the plugins themselves, for the embedded model."""
    registry = PluginRegistry.discover()
    header = open_artifact(None, registry).header
    frontend = claim_family(None, registry, header).hook.ninfer_family_frontend(header=header)
    lower = registry.load(registry.select("protocol", "openai-chat")).hook.ninfer_protocol_lower
    return frontend.prepare(lower(body=json.dumps(BODY).encode()), ThinkingDefaults())


def test_the_prompt_is_the_only_thing_on_stdout(
    body: Path, expected: Any, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["render", str(body)]) == 0
    out, err = capfdbinary.readouterr()
    assert out == expected.text.encode()
    assert b"\x1b[31m and <|im_end|>" in out
    report = err.decode()
    assert f"{len(expected.token_ids)} tokens" in report
    for line in ("structured", "reasoning_effort   low", "preserve_thinking  false", "generation"):
        assert line in report


@pytest.mark.contract("CHAT-38")
def test_json_has_text_ids_options_and_frontiers(
    body: Path, expected: Any, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["render", str(body), "--json"]) == 0
    document = json.loads(capfdbinary.readouterr().out)
    assert document["text"] == expected.text
    assert document["token_ids"] == list(expected.token_ids)
    assert document["prompt_tokens"] == len(expected.token_ids)
    assert document["initial_channel"] == "reasoning"
    assert document["renderer"] == "structured"
    assert document["options"] == {"enable_thinking": True, "reasoning_effort": "low", "preserve_thinking": False}
    assert document["frontiers"] == [
        {"kind": each.kind, "tokens": each.tokens, "message": each.message, "part": each.part}
        for each in expected.frontiers
    ]
    assert "<|im_start|>system\nnow in French<|im_end|>\n<|im_start|>user\nq<|im_end|>\n" in document["text"]


def test_stdin_and_server_defaults(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    body = {"messages": BODY["messages"]}
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(body).encode())))
    assert main(["render", "-", "--no-thinking", "--preserve-thinking"]) == 0
    out = capfdbinary.readouterr().out.decode()
    assert out.endswith("<|im_start|>assistant\n<think>\n\n</think>\n\n")
    assert "thought" in out


@pytest.mark.parametrize(
    ("text", "arguments", "code", "said"),
    [
        ("{", (), 1, "invalid_json"),
        ('{"messages": [{"role": "user", "content": "q"}], "n": 2}', (), 1, "n_not_supported"),
        ('{"messages": [{"role": "assistant", "content": "q"}]}', (), 1, "invalid_prompt"),
        ('{"messages": [{"role": "user", "content": "q"}], "reasoning_effort": "max"}', (), 1, "not_supported"),
        (" " * (2**20 + 1), ("--max-request-mib", "1"), 1, "request_too_large"),
        ("{}", ("--protocol", "openai-chats"), 2, "did you mean 'openai-chat'"),
        ("{}", ("/nowhere.ninfer",), 2, "artifact_invalid"),
    ],
)
def test_refusals_have_their_codes(
    text: str, arguments: tuple[str, ...], code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "request.json"
    path.write_text(text)
    assert main(["render", str(path), *arguments]) == code
    out, err = capsys.readouterr()
    assert out == "" and said in err


def test_the_plan_says_which_renderer_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--device", "cpu"]) == 0
    assert "structured renderer" in capsys.readouterr().out


def test_the_report_says_why_a_template_is_not_recognised(expected: Any) -> None:
    capabilities = TemplateCapabilities(
        thinking_toggle=True,
        efforts=(),
        default_effort=None,
        preserve_thinking=True,
        tools=False,
        renderer="jinja",
        renderer_reason="it writes no tools",
    )
    bare = msgspec.structs.replace(expected, frontiers=())
    report = prompt_report(SimpleNamespace(capabilities=capabilities), bare)  # type: ignore[arg-type]
    assert "jinja: it writes no tools" in report and "FRONTIER" not in report
