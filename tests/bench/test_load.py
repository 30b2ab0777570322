"""`ninfer bench serve`: a real server under load, servers that fail, and the picture of what came out."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ninfer_core.api.errors import StartFailed
from ninfer_core.bench.load import Answer, Client, Load, run_load
from ninfer_core.bench.records import load as load_runs
from ninfer_core.bench.wording import load_line
from ninfer_core.cli.main import main

LOAD = Load(concurrency=(1, 2), requests=4, prompt_words=3, output_tokens=4, seconds=20.0)


STRANGE = {"list": [1], "words": {"error": "no words"}, "no-delta": {"choices": [{}]}}
"""What no chunk of the API looks like, by mode."""


class Scripted(BaseHTTPRequestHandler):
    """Answers as the class attribute says."""

    mode = "good"
    asked = 0

    def do_GET(self) -> None:
        self._send(200, json.dumps({"data": [{"id": "scripted"}]}).encode())

    def do_POST(self) -> None:
        type(self).asked += 1
        if self.mode == "busy":
            self._send(429, b"{}")
            return
        said = f"word {self.asked}" if self.mode == "fickle" else "word"
        self.rfile.read(int(self.headers["content-length"]))
        self._event({"choices": [{"delta": {"content": said}}]}, first=True)
        if self.mode == "slow":
            time.sleep(2)
        if self.mode in STRANGE:
            self._event(STRANGE[self.mode])
            return
        if self.mode == "failing":
            self._event({"error": {"code": "engine_failed"}})
            return
        self._event({"choices": [{"delta": {"reasoning_content": "more"}}]})
        self._event({"choices": [], "usage": {"completion_tokens": 2}})
        self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, data: object, first: bool = False) -> None:
        if first:
            self.send_response(200)
            self.end_headers()
        self.wfile.write(f": keep alive\n\ndata: {json.dumps(data)}\n\n".encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def url() -> Iterator[str]:
    Scripted.asked = 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("mode", "errors", "differing"),
    [("good", {}, 0), ("busy", {"status 429": 4}, 0), ("failing", {"engine_failed": 4}, 0), ("fickle", {}, 4)],
)
def test_errors_and_other_answers_are_counted(
    url: str, monkeypatch: pytest.MonkeyPatch, mode: str, errors: dict[str, int], differing: int
) -> None:
    monkeypatch.setattr(Scripted, "mode", mode)
    figures, checks = run_load(Client(url, LOAD), LOAD)
    assert [figure.errors for figure in figures] == [errors, errors]
    assert [check.passed for check in checks] == [mode in ("good", "fickle"), mode == "good"]
    assert checks[1].values["differing_error"] == differing
    if mode == "good":
        assert [figure.output_tokens for figure in figures] == [8, 8]
        assert all(0 < figure.first_token_seconds["p50"] <= figure.first_token_seconds["p99"] for figure in figures)


@pytest.mark.parametrize("mode", STRANGE)
def test_what_is_no_chunk_has_failed(url: str, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """Whatever another server sends ends one request and no load."""
    monkeypatch.setattr(Scripted, "mode", mode)
    answer = Client(url, LOAD).ask(0, time.monotonic() + 10)
    assert answer.error in {"AttributeError", "TypeError", "KeyError"}


def test_a_server_that_takes_too_long_is_given_up(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scripted, "mode", "slow")
    client = Client(url, LOAD)
    begin = time.monotonic()
    answer: Answer = client.ask(0, begin + 0.5)
    assert answer.error == "TimeoutError"
    assert time.monotonic() - begin < 1.5


def test_what_was_not_started_has_not_failed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scripted, "mode", "good")
    client, answered = Client(url, LOAD), Client.ask

    def slow(self: Client, number: int, deadline: float) -> Answer:
        time.sleep(0.2)
        return answered(self, number, deadline + 20)

    monkeypatch.setattr(Client, "ask", slow)
    short = Load(concurrency=(1, 2), requests=50, prompt_words=3, output_tokens=4, seconds=0.5)
    figures, checks = run_load(client, short)
    (figure,) = figures
    assert figure.errors == {} and checks[0].passed
    assert 1 <= figure.requests <= 4 and figure.requests + figure.not_started == 50
    assert f"{figure.not_started} not started (--seconds)" in load_line(figure)


def test_a_load_without_time_is_none(url: str) -> None:
    client = Client(url, LOAD)
    with pytest.raises(StartFailed, match="give more --seconds"):
        run_load(client, Load(concurrency=(1,), requests=4, prompt_words=3, output_tokens=4, seconds=0.0))


def test_nobody_at_the_url(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "serve", "http://127.0.0.1:9", "--seconds", "5"]) == 1
    said = capsys.readouterr().err
    assert "start_failed: nobody can be reached at 127.0.0.1:9: " in said and "give the URL of a server" in said
    assert "Errno" not in said


@pytest.mark.long
def test_the_embedded_model_under_load_and_its_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "bench serve --device cpu --max-concurrency 2 --concurrency 1,2 --requests 3 --prompt-words 4"
    code = main([*words.split(), "--output-tokens", "6", "--seconds", "60", "--output", str(tmp_path)])
    said = capsys.readouterr()
    assert code == 0, said
    (path,) = tmp_path.iterdir()
    (run,) = load_runs([path])
    assert [each.concurrency for each in run.loads] == [1, 2] and all(not each.errors for each in run.loads)
    assert all(0 < each.output_tokens <= 18 and each.between_tokens_seconds["p50"] > 0 for each in run.loads)
    assert run.plan is not None and run.plan.digest == run.digest and len(run.code) == 12
    pytest.importorskip("matplotlib")
    picture = tmp_path / "picture.png"
    assert main(["bench", "plot", str(path), "-o", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_picture_without_matplotlib_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    empty = tmp_path / "run.json"
    empty.write_text(
        '{"kind": "engine", "date": "", "digest": "", "model": "", "figures": [], "checks": [], "machine":'
        '{"device": "", "torch": "", "triton": "", "driver": "", "python": ""}}'
    )
    assert main(["bench", "plot", str(empty), "-o", str(tmp_path / "p.png")]) == 1
    assert "pip install 'ninfer[dev]'" in capsys.readouterr().err
