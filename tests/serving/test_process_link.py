"""The engine process that does not come up, or comes up with something else in mind."""

from __future__ import annotations

import asyncio
import errno
import io
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ninfer_core.api.errors import RequestError, ServiceUnavailable, StartFailed
from ninfer_core.api.request import SamplingOptions
from ninfer_core.api.service import Admitted
from ninfer_core.engine.messages import Event, Fatal, PhaseDone, Ready, Submit, pack_token_ids
from ninfer_core.engine.wire import encode_frame
from ninfer_core.serving import process_link
from ninfer_core.serving.engine_link import LinkState, start_step
from ninfer_core.serving.process_link import ProcessLink
from ninfer_core.serving.sampling import resolve_sampling
from ninfer_core.telemetry import create_log
from ninfer_core.testing.simulated_plan import simulated_plan
from ninfer_core.testing.tiny import write_tiny_artifact


def test_an_engine_that_cannot_start_says_why_and_leaves_nothing_behind(tmp_path: Path) -> None:
    artifact = write_tiny_artifact(tmp_path / "tiny.ninfer")

    async def run() -> None:
        link = ProcessLink(simulated_plan(), str(artifact), log=create_log("off"), log_level="off")
        with pytest.raises(StartFailed, match="plan_rejected"):
            await link.start(lambda name, seconds: None)
        assert link.failure is not None
        assert link._process is not None and link._process.poll() is not None
        await link.stop()

    asyncio.run(run())


def test_a_system_that_gives_no_process_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def spawn(theirs: socket.socket) -> subprocess.Popen[bytes]:
        raise OSError(errno.EMFILE, "Too many open files", "/dev/null")

    monkeypatch.setattr(process_link, "_spawn", spawn)

    async def run() -> None:
        link = ProcessLink(simulated_plan(), None, log=create_log("off"), log_level="off")
        with pytest.raises(StartFailed, match="cannot be started: Too many open files; `ulimit -a` shows"):
            await link.start(lambda name, seconds: None)
        await link.stop()

    asyncio.run(run())


def test_an_engine_whose_end_does_not_end_the_connection_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of the engine's own, such as a compiler's, may hold the socket open."""
    held: list[socket.socket] = []

    def spawn(theirs: socket.socket) -> subprocess.Popen[bytes]:
        held.append(theirs.dup())
        return subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])

    monkeypatch.setattr(process_link, "_spawn", spawn)
    monkeypatch.setattr(process_link, "SILENCE_SECONDS", 0.2)

    async def run() -> None:
        link = ProcessLink(simulated_plan(), None, log=create_log("off"), log_level="off")
        async with asyncio.timeout(10):
            with pytest.raises(StartFailed, match=r"ended while it started \(exit code 3\)"):
                await link.start(lambda name, seconds: None)

    asyncio.run(run())
    for end in held:
        end.close()


def test_the_steps_of_a_start() -> None:
    phases: list[str] = []

    def note(name: str, seconds: float) -> None:
        phases.append(name)

    ready = Ready(plan_digest="d")
    assert start_step(PhaseDone(name="weights", seconds=1), note) is None
    assert start_step(ready, note) is ready
    assert phases == ["weights"]
    admitted = Event(request_id=1, event=Admitted(prompt_tokens=1, cached_tokens=0))
    for message in (Fatal(code="c", message="why"), None, admitted):
        with pytest.raises(StartFailed):
            start_step(message, note)
    with pytest.raises(StartFailed, match=r"^the engine did not start: c: why$"):
        start_step(Fatal(code="c", message="why"), note)
    # Its own code is not said twice.
    with pytest.raises(StartFailed, match=r"^the engine did not start: why$"):
        start_step(Fatal(code=StartFailed.code, message="why"), note)


def test_an_engine_with_another_plan_is_refused() -> None:
    state = LinkState("ours", create_log("off"))
    with pytest.raises(StartFailed, match="theirs"):
        state.accept_ready(Ready(plan_digest="theirs"))
    assert state.failure is not None


def test_a_loss_is_logged_once_and_its_first_reason_stands() -> None:
    async def run() -> None:
        stream = io.StringIO()
        state = LinkState("d", create_log("info", stream))
        with pytest.raises(ServiceUnavailable, match="it is starting"):
            state.open(1, lambda: None, lambda: None)
        state.failure = None
        ended: list[int] = []
        events = state.open(1, lambda: ended.append(1), lambda: None)
        state.receive(Fatal(code="engine_failed", message="the device is gone"))
        state.fail("the engine process has ended")
        assert ended == [1]
        with pytest.raises(RequestError, match="the device is gone"):
            await events.next()
        assert stream.getvalue().count("engine_lost") == 1 and "the device is gone" in stream.getvalue()

    asyncio.run(run())


@pytest.mark.contract("GEN-3")
@pytest.mark.parametrize("body", [b"\xa1\xa1\xff", b"\xc0", b"\x83\xa4type\xa5fatal\xa1x" + b"\x91" * 20_000])
def test_a_corrupted_frame_of_the_engine_is_the_end_of_the_link(monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    """Not of the task that reads, which would leave a server that is well and answers nobody."""
    corrupt = len(body).to_bytes(4, "little") + body

    def spawn(theirs: socket.socket) -> subprocess.Popen[bytes]:
        script = (
            "import socket, sys; link = socket.socket(fileno=int(sys.argv[1])); link.recv(4096)\n"
            "link.sendall(sys.stdin.buffer.read())\n"
            "while link.recv(4096): pass"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(theirs.fileno())], stdin=subprocess.PIPE, pass_fds=(theirs.fileno(),)
        )
        assert process.stdin is not None
        process.stdin.write(encode_frame(Ready(plan_digest=plan.digest)) + corrupt)
        process.stdin.close()
        return process

    plan = simulated_plan()
    monkeypatch.setattr(process_link, "_spawn", spawn)

    async def run() -> None:
        log = io.StringIO()
        link = ProcessLink(plan, None, log=create_log("info", log), log_level="off")
        await link.start(lambda name, seconds: None)
        events = link.submit(submit(1), on_end=lambda: None)
        with pytest.raises(ServiceUnavailable, match="link to the engine process broke"):
            async with asyncio.timeout(10):
                await events.next()
        assert link.failure is not None
        assert "engine_link_broken" in log.getvalue() and "engine_lost" in log.getvalue()
        assert "in read" in log.getvalue(), "where it happened"
        await link.stop()

    asyncio.run(run())


@pytest.mark.contract("ERR-4")
def test_a_request_in_the_moment_of_the_engines_end_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The transport is closed already, and the listener has not said so yet."""

    async def run() -> None:
        link = ProcessLink(simulated_plan(), None, log=create_log("off"), log_level="off")
        link._state.failure = None
        ended: list[bool] = []
        for writer in (ClosedWriter(closing=True), ClosedWriter(closing=False)):
            monkeypatch.setattr(link, "_writer", writer)
            events = link.submit(submit(len(ended) + 1), on_end=lambda: ended.append(True))
            with pytest.raises(ServiceUnavailable):
                await events.next()
            link.cancel(1)
        assert ended == [True, True]

    asyncio.run(run())


class ClosedWriter:
    """A transport whose peer has gone: it says so, or it finds out as it writes."""

    def __init__(self, *, closing: bool) -> None:
        self._closing = closing

    def is_closing(self) -> bool:
        return self._closing

    def write(self, data: bytes) -> None:
        raise RuntimeError("unable to perform operation on <UnixTransport closed=True>; the handler is closed")


def submit(request_id: int) -> Submit:
    return Submit(
        request_id=request_id,
        prompt=pack_token_ids((1,)),
        initial_channel="content",
        sampling=resolve_sampling(simulated_plan(), SamplingOptions(), thinking=False),
        max_output_tokens=1,
        stop=(),
        stop_channels=(),
        received_monotonic=0.0,
        deadline_monotonic=1.0,
    )
