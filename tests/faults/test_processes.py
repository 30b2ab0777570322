"""Dead engines, dead fronts and signals: two real processes, with clients in every state of a request."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import msgspec
import pytest
from ninfer_protocols.openai_chat import ninfer_protocol_build

from ninfer_core.api import ProtocolContext, ProtocolRoutes
from ninfer_core.testing.clients_under_fault import SLOW_ANSWERS, Crowd, hurt
from ninfer_core.testing.event_streams import data_payloads
from ninfer_core.testing.scripted_server import scripted_server
from ninfer_core.testing.server_process import ServerProcess, is_alive, server_process, until

CHAT = "/v1/chat/completions"
CLIENTS = 7
END_SECONDS = 5.0
EXIT_SECONDS = 30.0
"""An interpreter that nobody waits for takes its time to end on a busy machine."""


def ask(text: str, **fields: object) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 1500} | fields


def kill_engine(served: ServerProcess, seed: int) -> None:
    """One round: everybody ends in time and knows why, health says so, nothing stays behind."""
    engine = served.engine_id()
    happened, outcomes = hurt(served, lambda: os.kill(engine, signal.SIGKILL), count=CLIENTS, seed=seed)
    assert {outcome.end for outcome in outcomes} <= {"done", "service_unavailable"}
    assert any(outcome.end != "done" for outcome in outcomes)
    assert max(outcome.monotonic for outcome in outcomes) - happened < END_SECONDS
    with httpx.Client(base_url=served.url, timeout=5) as http:
        until(lambda: http.get("/health").status_code == 503, 2)
        assert http.post(CHAT, json=ask("hi")).status_code == 503
    served.terminate()
    assert served.process.wait(EXIT_SECONDS) == 0
    assert not is_alive(engine)


def kill_front(served: ServerProcess, seed: int) -> None:
    """One round: everybody ends in time, and the engine does not outlive its front."""
    engine = served.engine_id()
    happened, outcomes = hurt(served, served.process.kill, count=CLIENTS, seed=seed)
    assert {outcome.end for outcome in outcomes} <= {"done", "cut"}
    assert max(outcome.monotonic for outcome in outcomes) - happened < END_SECONDS
    until(lambda: not is_alive(engine), END_SECONDS - min(END_SECONDS - 0.1, time.monotonic() - happened))


@pytest.mark.contract("GEN-3", "ERR-4", "GEN-4")
def test_a_killed_engine(slow_server: tuple[str, ...]) -> None:
    with server_process(*slow_server) as served:
        kill_engine(served, seed=0)


def test_a_killed_front(slow_server: tuple[str, ...]) -> None:
    with server_process(*slow_server) as served:
        kill_front(served, seed=1)


@pytest.mark.long
@pytest.mark.contract("GEN-3", "ERR-4")
def test_thirty_killed_engines_and_thirty_killed_fronts(slow_server: tuple[str, ...]) -> None:
    before = sum(1 for _ in Path("/proc/self/fd").iterdir())

    def one(number: int) -> None:
        with server_process(*slow_server) as served:
            (kill_engine if number % 2 else kill_front)(served, number)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, range(60)))
    assert sum(1 for _ in Path("/proc/self/fd").iterdir()) <= before + 2


@pytest.mark.contract("GEN-3")
def test_an_engine_that_fails_by_itself(tmp_path: Path, slow_server: tuple[str, ...]) -> None:
    script = tmp_path / "script.json"
    script.write_bytes(msgspec.json.encode([{"content": "Last words.", "fail": True}]))
    with (
        server_process(slow_server[0], "--scripted", str(script)) as served,
        httpx.Client(base_url=served.url, timeout=10) as http,
    ):
        payloads = data_payloads(http.post(CHAT, json=ask("hi", stream=True)).text)
        assert payloads[-1]["error"]["code"] == "service_unavailable"
        assert "words" in "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in payloads[:-1])
        until(lambda: http.get("/health").status_code == 503, 2)


def test_a_signal_to_the_whole_group_drains(slow_server: tuple[str, ...]) -> None:
    """What a service manager sends by default: the engine leaves it to the front, and finishes what is running."""
    with server_process(*slow_server, new_session=True) as served, ThreadPoolExecutor(6) as pool:
        engine = served.engine_id()

        def post(number: int) -> httpx.Response:
            body = ask("answer", stream=number % 2 > 0, max_tokens=150 + 20 * number)
            return httpx.post(served.url + CHAT, json=body, timeout=60)

        running = [pool.submit(post, number) for number in range(6)]
        until(lambda: sum(" request_started " in line for line in list(served.log)) == 6, 20)
        os.killpg(served.process.pid, signal.SIGTERM)
        answers = [each.result() for each in running]
        assert served.process.wait(EXIT_SECONDS) == 0
        assert not is_alive(engine)
    assert [answer.status_code for answer in answers] == [200] * 6
    for number, answer in enumerate(answers):
        if number % 2:
            assert data_payloads(answer.text)[-1] == "[DONE]"
        else:
            assert answer.json()["usage"]["completion_tokens"] == 150 + 20 * number
    assert not any("engine_lost" in line for line in served.log)


def test_one_signal_drains_and_refuses_and_a_second_one_ends(slow_server: tuple[str, ...]) -> None:
    with server_process(*slow_server) as served:
        engine = served.engine_id()
        crowd = Crowd(served.url, 3, seed=5)
        time.sleep(0.4)
        served.terminate()
        until(lambda: any(" draining " in line for line in list(served.log)), 2)
        time.sleep(0.3)
        with pytest.raises(httpx.ConnectError):
            httpx.get(served.url + "/health", timeout=2)
        assert served.process.poll() is None, "what is running may go on"
        second = time.monotonic()
        served.terminate()
        assert served.process.wait(5) == 1
        assert time.monotonic() - second < 2
        until(lambda: not is_alive(engine), 2)
        assert {outcome.end for outcome in crowd.outcomes()} <= {"cut", "done", "service_unavailable"}


def chat(context: ProtocolContext) -> list[ProtocolRoutes]:
    return [ninfer_protocol_build(context=context)]


def test_a_drain_that_takes_too_long_ends_with_a_word_of_it() -> None:
    with scripted_server(SLOW_ANSWERS, chat, drain_seconds=1) as server:
        crowd = Crowd(server.base_url, 5, seed=3)
        until(lambda: server.service.open_requests == 5, 5)
        begin = time.monotonic()
        server.stop()
        outcomes = crowd.outcomes()
        assert time.monotonic() - begin < 4
        assert {outcome.end for outcome in outcomes} <= {"done", "service_unavailable"}
        assert sum(outcome.end == "service_unavailable" for outcome in outcomes) >= 3


@pytest.mark.long
@pytest.mark.contract("GEN-18", "EXEC-21")
def test_file_descriptors_do_not_grow(slow_server: tuple[str, ...]) -> None:
    with server_process(*slow_server) as served:

        def leave(number: int) -> None:
            with httpx.Client(base_url=served.url, timeout=10) as http:
                text = ("hi", "answer", "prompt" + "." * 500)[number % 3]
                with http.stream("POST", CHAT, json=ask(text, stream=number % 4 > 0, max_tokens=40)) as answer:
                    if number % 5:
                        next(answer.iter_bytes(), b"")

        with httpx.Client(base_url=served.url) as http:
            http.get("/health")
        leave(0)
        until(lambda: served.open_files() > 0, 1)
        before = served.open_files()
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(leave, range(48)))
        until(lambda: served.open_files() <= before + 1, 5)
