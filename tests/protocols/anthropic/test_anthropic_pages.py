"""The program of the page about Anthropic's client runs as it stands, but for the address; and what the pages of
programs that are not installed here say is held to the server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from ninfer_protocols import anthropic, openai_chat

from ninfer_core.testing.event_streams import data_payloads
from ninfer_core.testing.live_server import LiveServer
from ninfer_core.testing.scripted_server import MODEL_ID, scripted_server

PAGES = Path(__file__).parents[3] / "docs" / "clients"
ANSWERS: list[dict[str, Any]] = [
    {"match": "France", "reasoning": "Easy.", "content": "Paris."},
    {"match": "Sort", "reasoning": "Small.", "content": "7, 19, 42"},
    {"reasoning": "A greeting.", "content": "Hello."},
]


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    builds = (openai_chat.ninfer_protocol_build, anthropic.ninfer_protocol_build)
    with scripted_server(ANSWERS, lambda context: [build(context=context) for build in builds]) as running:
        yield running


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (PAGES / f"{page}.md").read_text(), re.DOTALL)


def test_the_program_of_the_sdk(server: LiveServer, capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = blocks("anthropic-sdk", "python")
    here = program.replace("http://127.0.0.1:8080", server.base_url)
    assert here.count(server.base_url) == 1
    exec(compile(here, "anthropic-sdk.md", "exec"), {"__name__": "page"})
    assert capsys.readouterr().out == "Paris.\nTrue\n7, 19, 42 (end_turn)\n"


def test_settings_of_claude_code() -> None:
    """Those that tests/clients/test_claude_code.py runs with."""
    tested = (Path(__file__).parents[2] / "clients" / "test_claude_code.py").read_text()
    stock, strict = (re.findall(r"export (\w+)=", block) for block in blocks("claude-code", "sh"))
    assert len(stock) == 6 and len(strict) == 1
    assert all(f'"{name}"' in tested for name in [*stock, *strict])


def test_requests_of_open_webui(server: LiveServer) -> None:
    with httpx.Client(base_url=server.base_url, headers={"Authorization": "Bearer unused"}, timeout=20) as client:
        (model,) = client.get("/v1/models").json()["data"]
        assert model["id"] == MODEL_ID
        body: dict[str, Any] = {
            "model": model["id"],
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
            "temperature": 0.7,
            "top_k": 20,
            "max_tokens": 200,
            "stop": ["###"],
        }
        answer = client.post(
            "/v1/chat/completions", json=body | {"stream": True, "stream_options": {"include_usage": True}}
        )
        *chunks, done = data_payloads(answer.text)
        deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
        assert done == "[DONE]" and chunks[-1]["usage"]["completion_tokens"] > 0
        assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "A greeting."
        assert "".join(delta.get("content") or "" for delta in deltas) == "Hello."
        title = {"model": model["id"], "messages": [{"role": "user", "content": "### Task: a title"}], "stream": False}
        assert client.post("/v1/chat/completions", json=title | {"max_completion_tokens": 1000}).status_code == 200
        refused = client.post("/v1/chat/completions", json=body | {"logit_bias": {"5": 1}})
        assert refused.json()["error"]["code"] == "logit_bias_not_supported"
        assert client.post("/v1/chat/completions", json=body | {"mirostat": 1, "num_ctx": 4096}).status_code == 200
