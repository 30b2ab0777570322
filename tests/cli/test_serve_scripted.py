"""`ninfer serve --scripted`: the example file in two processes, and files that cannot be served."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from ninfer_core.engine.scripted.script import read_script
from ninfer_core.testing.event_streams import data_payloads
from ninfer_core.testing.server_process import serve_command, serve_environment, server_process
from ninfer_core.testing.tiny import write_tiny_artifact

EXAMPLE = Path(__file__).parents[2] / "examples" / "scripted" / "answers.json"
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
    },
}


def test_the_example_through_the_official_client(tmp_path: Path) -> None:
    artifact = write_tiny_artifact(tmp_path / "tiny.ninfer")
    with (
        server_process(str(artifact), "--scripted", str(EXAMPLE)) as served,
        openai.OpenAI(base_url=served.url + "/v1", api_key="-", max_retries=0, timeout=30) as sdk,
    ):
        messages: list[Any] = [{"role": "user", "content": "How is the weather in Oslo?"}]
        chunks = list(sdk.chat.completions.create(model="tiny-random", messages=messages, tools=[TOOL], stream=True))
        deltas = [chunk.choices[0].delta for chunk in chunks]
        (call,) = [call for delta in deltas for call in delta.tool_calls or ()]
        assert call.function is not None
        assert (call.function.name, call.function.arguments) == ("get_weather", '{"city":"Oslo","days":3}')
        assert "".join(delta.content or "" for delta in deltas) == "Let me look."
        assert chunks[-1].choices[0].finish_reason == "tool_calls"
        messages += [
            {"role": "assistant", "content": "Let me look.", "tool_calls": [call.model_dump()]},
            {"role": "tool", "tool_call_id": call.id, "content": "rain"},
        ]
        answer = sdk.chat.completions.create(model="tiny-random", messages=messages, tools=[TOOL])
        assert answer.choices[0].message.content == "Three days of rain in Oslo."
        with httpx.Client(base_url=served.url, timeout=30) as http:
            body = {"messages": [{"role": "user", "content": "a long one"}], "max_tokens": 60}
            choice = http.post("/v1/chat/completions", json=body).json()["choices"][0]
            assert choice["finish_reason"] == "length" and choice["message"]["content"].endswith("19 20")
            body = {"messages": [{"role": "user", "content": "crash"}], "stream": True}
            payloads = data_payloads(http.post("/v1/chat/completions", json=body).text)
            assert payloads[-1]["error"]["code"] == "service_unavailable"
            assert http.get("/health").status_code == 503
        assert any(" WARNING scripted " in line for line in served.log)


def test_the_example_is_a_script() -> None:
    assert len(read_script(EXAMPLE).answers) == 7


@pytest.mark.parametrize("content", ["[]", "{", '[{"say": "x"}]'])
def test_a_wrong_file_ends_the_start(tmp_path: Path, content: str) -> None:
    script = tmp_path / "script.json"
    script.write_text(content)
    failed = subprocess.run(
        serve_command("--scripted", str(script)),
        capture_output=True, text=True, timeout=60, env=serve_environment(), check=False,
    )  # fmt: skip
    assert failed.returncode == 2
    assert "script_invalid" in failed.stderr and "Traceback" not in failed.stderr
