"""The programs of the first page, and of those about OpenAI's clients, run as they stand, but for address and model."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import httpx
import pytest
from ninfer_protocols import openai_chat, openai_responses

from ninfer_core.testing.scripted_server import MODEL_ID, scripted_server

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "clients"
ANSWERS: list[dict[str, Any]] = [
    {"match": "France", "reasoning": "Easy.", "content": "Paris."},
    {"match": "Norway", "content": "Oslo."},
    {"match": "Sort", "content": "7, 19, 42"},
    {"match": "weather", "tool_calls": [{"name": "get_weather", "arguments": {"city": "Oslo"}}]},
    {"match": "weather", "content": "It rains."},
]
PRINTED = {
    "../../README": "7, 19, 42\n",
    "openai-sdk": "Paris.\nOslo.\n7, 19, 427, 19, 42\n",
    "openai-agents": "It rains.\n",
}
BUILDS = (openai_chat.ninfer_protocol_build, openai_responses.ninfer_protocol_build)


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (PAGES / f"{page}.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("page", PRINTED)
def test_programs(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = blocks(page, "python")
    with scripted_server(ANSWERS, lambda context: [build(context=context) for build in BUILDS]) as server:
        here = program.replace("http://127.0.0.1:8080", server.base_url).replace("ninfer-tiny", MODEL_ID)
        assert here.count(server.base_url) == 1 and MODEL_ID in here
        exec(compile(here, f"{page}.md", "exec"), {"__name__": "page"})
    assert capsys.readouterr().out == PRINTED[page]


def test_the_first_request_and_its_answer() -> None:
    """What the first page has people send, and the members of the answer that it shows."""
    page = (ROOT / "README.md").read_text()
    (asked,) = re.findall(
        r"curl -s http://127\.0\.0\.1:8080(\S+) -H 'Content-Type: application/json' \\\n +-d '(.*)'", page
    )
    (shown,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    with scripted_server(ANSWERS, lambda context: [build(context=context) for build in BUILDS]) as server:
        body = json.loads(asked[1]) | {"model": MODEL_ID}
        answer = httpx.post(f"{server.base_url}{asked[0]}", json=body).json()
    assert members(json.loads(shown)) <= members(answer)
    assert json.loads(shown)["model"] == json.loads(asked[1])["model"] == "ninfer-tiny"


def members(value: Any, path: str = "") -> set[str]:
    """Where the members of a JSON value are, those of all items of an array under one path."""
    if isinstance(value, list):
        return {place for item in value for place in members(item, f"{path}[]")}
    if not isinstance(value, dict):
        return {path}
    return {place for name, item in value.items() for place in members(item, f"{path}.{name}")}


def test_settings_of_codex() -> None:
    """The settings that tests/clients/test_codex.py runs with."""
    provider, strict = map(tomllib.loads, blocks("codex", "toml"))
    tested = (Path(__file__).parents[1] / "clients" / "test_codex.py").read_text()
    assert provider["model_providers"]["ninfer"].keys() <= {"name", "base_url", "wire_api"}
    assert all(f'{name}="{value}"' in tested for name, value in strict.items())
    assert provider["model_provider"] == "ninfer" and provider["model_providers"]["ninfer"]["wire_api"] == "responses"
