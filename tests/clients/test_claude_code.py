"""Claude Code runs a tool loop against a live server of scripted answers: `make test-claude-code`.

CLAUDE_COMMAND names the program; without it there is nothing to test here.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ninfer_core.testing.server_process import server_process

CLAUDE = os.environ.get("CLAUDE_COMMAND")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CLAUDE is None, reason="CLAUDE_COMMAND does not name Claude Code"),
]

MODEL_ID = "qwen3.8-27b"
COMMAND = "printf 'forty-two' > answer.txt && cat answer.txt"
ANSWERS: list[dict[str, Any]] = [
    {
        "match": "answer file",
        "reasoning": "A command writes it.",
        "content": "I write the file.",
        "tool_calls": [{"name": "Bash", "arguments": {"command": COMMAND, "description": "Write it"}}],
        "chunk_characters": 16,
    },
    {"match": "answer file", "reasoning": "Done.", "content": "The file holds forty-two."},
]
STRICT = {"CLAUDE_CODE_EFFORT_LEVEL": "xhigh"}
"""Keeps Claude Code within the contract."""


def run_claude(url: str, home: Path, work: Path, settings: dict[str, str]) -> list[dict[str, Any]]:
    """What `claude -p --output-format stream-json` reports, line by line."""
    assert CLAUDE is not None
    for folder in (home, work):
        folder.mkdir()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("ANTHROPIC_", "CLAUDE_"))},
        "HOME": str(home),
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_AUTH_TOKEN": "unused",
        "ANTHROPIC_MODEL": MODEL_ID,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": MODEL_ID,
        "CLAUDE_CODE_AUTO_COMPACT_WINDOW": "131072",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        **settings,
    }
    command = [CLAUDE, "-p", "Write the answer file.", "--output-format", "stream-json", "--verbose"]
    done = subprocess.run(
        [*command, "--allowedTools", "Bash", "--disallowedTools", "WebSearch"],
        cwd=work,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.parametrize(
    ("options", "settings"),
    [(["--compat", "claude-code"], {}), ([], STRICT)],
    ids=["stock settings, --compat claude-code", "strict settings"],
)
def test_a_tool_loop_of_two_turns(tmp_path: Path, options: list[str], settings: dict[str, str]) -> None:
    script = tmp_path / "answers.json"
    script.write_text(json.dumps(ANSWERS))
    # The header of a model whose context holds the prompt.
    bounds = ["--device", "0", "--assume-device-memory", "141GiB", "--max-context", "131072"]
    with server_process(f"dummy:{MODEL_ID}", "--scripted", str(script), *bounds, *options) as server:
        events = run_claude(server.url, tmp_path / "home", tmp_path / "work", settings)
    assert (tmp_path / "work" / "answer.txt").read_text() == "forty-two"
    result = events[-1]
    assert (result["type"], result["is_error"], result["num_turns"]) == ("result", False, 2)
    assert result["result"] == "The file holds forty-two."
