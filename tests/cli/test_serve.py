"""`ninfer serve` as it is started: two real processes around a tiny random model."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from ninfer_core.testing.event_streams import data_payloads
from ninfer_core.testing.plugins import write_plugin_package
from ninfer_core.testing.server_process import (
    ServerProcess,
    free_port,
    is_alive,
    serve_command,
    serve_environment,
    server_process,
    until,
)
from ninfer_core.testing.tiny import write_tiny_artifact

CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_artifact(tmp_path_factory.mktemp("artifact") / "tiny.ninfer")


def body(**fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 12, "seed": 1} | fields


def serving(artifact: Path, *arguments: str) -> AbstractContextManager[ServerProcess]:
    return server_process(str(artifact), *arguments)


@pytest.fixture(scope="module")
def served(artifact: Path) -> Iterator[ServerProcess]:
    with serving(artifact, "--max-concurrency", "8", "--kv-capacity", "16384", "--max-context", "2048") as running:
        yield running


@pytest.mark.contract("GEN-2", "OLOG-1", "OLOG-2", "OLOG-3")
def test_the_ready_line_says_what_runs(served: ServerProcess) -> None:
    line = served.ready_line
    assert line is not None
    for part in (
        "model=tiny-random",
        "plan=",
        "max_context=2048",
        "kv_tokens=16384",
        "max_concurrency=8",
        "phases=plan:",
    ):
        assert part in line
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} [A-Z]+ ", each) for each in served.log)
    assert not any("\x1b" in each for each in served.log)


@pytest.mark.parametrize(
    ("raised", "cause"),
    [
        ("ValueError('no such plane')", "ValueError: no such plane"),
        pytest.param("SystemExit(7)", "SystemExit: 7", marks=pytest.mark.long),
    ],
    ids=["exception", "exit"],
)
def test_a_plugin_that_fails_in_the_engine_ends_the_start_with_its_message(
    artifact: Path, tmp_path: Path, raised: str, cause: str
) -> None:
    source = f"""
from ninfer_core.api import hookimpl
from ninfer_kvformats.bf16 import ninfer_kv_layout

@hookimpl
def ninfer_kv_codec(layout):
    raise {raised}
"""
    write_plugin_package(tmp_path, "failing-kv", {"kv:failing": source})
    done = subprocess.run(
        serve_command(str(artifact), "--device", "cpu", "--port", str(free_port()), "--kv-dtype", "failing"),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**serve_environment(), "PYTHONPATH": str(tmp_path)},
        timeout=60,
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("start_failed: the engine did not start: plugin_broken: kv plugin 'failing'"), done.stderr
    assert last.endswith(f"failed in ninfer_kv_codec: {cause}")


@pytest.mark.contract("EXEC-1", "EXEC-2")
def test_eight_clients_get_what_one_at_a_time_gets(served: ServerProcess) -> None:
    with httpx.Client(base_url=served.url, timeout=60) as http:

        def ask(number: int) -> tuple[str, str]:
            message = http.post(CHAT, json=body(seed=number, temperature=0 if number % 2 else 1)).json()
            found = message["choices"][0]["message"]
            return found["content"], found.get("reasoning_content", "")

        alone = [ask(number) for number in range(8)]
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(ask, range(8))) == alone


def test_the_official_client(served: ServerProcess) -> None:
    question: Any = [{"role": "user", "content": "hi"}]
    with openai.OpenAI(base_url=served.url + "/v1", api_key="-", max_retries=0, timeout=60) as sdk:
        options: dict[str, Any] = {"model": "tiny-random", "messages": question, "max_tokens": 12, "temperature": 0}
        whole = sdk.chat.completions.create(**options).choices[0].message
        deltas = [chunk.choices[0].delta for chunk in sdk.chat.completions.create(**options, stream=True)]
        assert "".join(delta.content or "" for delta in deltas) == whole.content
        with pytest.raises(openai.BadRequestError):
            sdk.chat.completions.create(**{**options, "temperature": 7})


def test_a_second_server_on_the_port_fails_clearly_and_at_once(served: ServerProcess, artifact: Path) -> None:
    port = served.url.rsplit(":", 1)[1]
    second = subprocess.run(
        serve_command(str(artifact), "--device", "cpu", "--port", port),
        capture_output=True, text=True, timeout=60, env=serve_environment(), check=False,
    )  # fmt: skip
    assert second.returncode == 1
    assert f"start_failed: port {port} on 127.0.0.1 is in use" in second.stderr


@pytest.mark.contract("GEN-18")
def test_a_disconnect_in_mid_stream_frees_the_row(served: ServerProcess) -> None:
    with httpx.Client(base_url=served.url, timeout=60) as http:
        with http.stream("POST", CHAT, json=body(stream=True, max_tokens=1900, stop=["\x00never"])) as answer:
            next(answer.iter_bytes())
        until(lambda: any("code=client_disconnected" in line for line in list(served.log)), 5)
        assert http.post(CHAT, json=body()).status_code == 200


@pytest.mark.contract("GEN-3", "ERR-4")
def test_a_killed_engine_ends_its_requests_and_the_front_lives(artifact: Path) -> None:
    with serving(artifact, "--max-context", "4096") as served, httpx.Client(base_url=served.url, timeout=30) as http:
        received = b""
        with http.stream("POST", CHAT, json=body(stream=True, max_tokens=4000)) as answer:
            for piece in answer.iter_bytes():
                if not received:
                    os.kill(served.engine_id(), signal.SIGKILL)
                    killed = time.monotonic()
                received += piece
        assert time.monotonic() - killed < 2
        assert data_payloads(received.decode())[-1]["error"]["code"] == "service_unavailable"
        until(lambda: http.get("/health").status_code == 503, 2)
        assert http.post(CHAT, json=body()).status_code == 503
        assert any("CRITICAL engine_lost" in line and "signal 9" in line for line in served.log)
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(10) == 0


def test_a_killed_front_takes_its_engine_along(artifact: Path) -> None:
    with serving(artifact) as served:
        engine = served.engine_id()
        served.process.kill()
        served.process.wait()
        until(lambda: not is_alive(engine), 5)


def test_a_drain_finishes_what_runs_and_exits_cleanly(artifact: Path) -> None:
    with serving(artifact, "--max-context", "4096") as served, httpx.Client(base_url=served.url, timeout=60) as http:
        engine = served.engine_id()
        received = b""
        with http.stream("POST", CHAT, json=body(stream=True, max_tokens=60)) as answer:
            for piece in answer.iter_bytes():
                if not received:
                    served.process.send_signal(signal.SIGTERM)
                received += piece
        assert received.endswith(b"data: [DONE]\n\n")
        assert served.process.wait(10) == 0
        assert not is_alive(engine)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--max-concurrency", "9"), "--max-concurrency"),
        (("--no-such-option",), "--no-such-option"),
        (("--kv-dtype", "int8"), "not_built_yet"),
        (("--protocols", "openai-chta"), "openai-chat"),
    ],
)
def test_wrong_options_end_the_start(artifact: Path, arguments: tuple[str, ...], said: str) -> None:
    failed = subprocess.run(
        serve_command(str(artifact), "--device", "cpu", *arguments),
        capture_output=True, text=True, timeout=60, env=serve_environment(), check=False,
    )  # fmt: skip
    assert failed.returncode == 2
    assert said in failed.stderr
    assert "Traceback" not in failed.stderr
