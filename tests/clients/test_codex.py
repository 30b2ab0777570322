"""The Codex CLI runs a tool loop against a live server of scripted answers: `make test-codex`.

CODEX_COMMAND names the program; without it there is nothing to test here.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

CODEX = os.environ.get("CODEX_COMMAND")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(CODEX is None, reason="CODEX_COMMAND does not name the Codex CLI"),
]

MODEL_ID = "qwen3.8-27b"
START_SECONDS = 90.0
COMMAND = "printf 'forty-two' > answer.txt && cat answer.txt"
ANSWERS: list[dict[str, Any]] = [
    {
        "match": "answer file",
        "reasoning": "A command writes it.",
        "content": "I write the file.",
        "tool_calls": [{"name": "exec_command", "arguments": {"cmd": COMMAND}}],
        "chunk_characters": 16,
    },
    {"match": "answer file", "reasoning": "Done.", "content": "The file holds forty-two."},
]
STRICT = ["-c", 'web_search="disabled"', "-c", 'model_reasoning_summary="none"']
"""Settings that keep Codex within the contract."""


@contextmanager
def base_url(folder: Path, *options: str) -> Iterator[str]:
    """`ninfer serve --scripted` on a free port, with the header of a model whose context holds Codex's prompt."""
    script = folder / "answers.json"
    script.write_text(json.dumps(ANSWERS))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(Path(sys.executable).parent / "ninfer"), "serve", f"dummy:{MODEL_ID}", "--scripted", str(script)]
    bounds = ["--assume-device-memory", "141GiB", "--max-context", "131072", "--port", str(port)]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen([*command, *bounds, *options], stderr=log, stdout=log)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_ready(server, url)
        yield url + "/v1"
    finally:
        server.terminate()
        server.wait(60)


def wait_until_ready(server: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert server.poll() is None, "the server has ended"
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(url + "/health").status_code == 200:
                return
        time.sleep(0.2)
    raise AssertionError("the server did not start")


def run_codex(url: str, home: Path, work: Path, *arguments: str) -> list[dict[str, Any]]:
    """What `codex exec --json` reports, line by line."""
    assert CODEX is not None
    for folder in (home, work):
        folder.mkdir()
    (home / "config.toml").write_text(
        f"""
model = "{MODEL_ID}"
model_provider = "ninfer"

[model_providers.ninfer]
name = "ninfer"
base_url = "{url}"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
"""
    )
    command = [CODEX, "exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    done = subprocess.run(
        [*command, *arguments, "Write the answer file."],
        cwd=work,
        env={**os.environ, "CODEX_HOME": str(home), "HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@pytest.mark.parametrize(
    ("options", "arguments"),
    [(["--compat", "codex"], []), ([], STRICT)],
    ids=["stock settings, --compat codex", "strict settings"],
)
def test_a_tool_loop_of_two_turns(tmp_path: Path, options: list[str], arguments: list[str]) -> None:
    with base_url(tmp_path, *options) as url:
        events = run_codex(url, tmp_path / "home", tmp_path / "work", *arguments)
    assert (tmp_path / "work" / "answer.txt").read_text() == "forty-two"
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    (run,) = [item for item in items if item["type"] == "command_execution"]
    assert run["exit_code"] == 0 and "forty-two" in run["aggregated_output"]
    assert [item["text"] for item in items if item["type"] == "agent_message"] == [
        "I write the file.",
        "The file holds forty-two.",
    ]
