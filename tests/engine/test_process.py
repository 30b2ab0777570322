"""The engine as a process of its own, on the tiny random model."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec
import pytest

from ninfer_core.api import ArtifactHeader, ExecutionPlan
from ninfer_core.api.errors import ErrorCategory, PluginBroken, RequestError
from ninfer_core.api.frontend import ChannelText
from ninfer_core.api.service import Admitted, Finished, TextDelta
from ninfer_core.artifact import open_artifact
from ninfer_core.artifact.safetensors_file import read_safetensors
from ninfer_core.engine.inline import InlineEngine
from ninfer_core.engine.messages import (
    Cancel,
    EngineMessage,
    Event,
    Failed,
    Fatal,
    FrontMessage,
    PhaseDone,
    Ready,
    Shutdown,
    Submit,
    failed,
    pack_token_ids,
)
from ninfer_core.engine.process import build_engine
from ninfer_core.engine.publisher import Publisher
from ninfer_core.engine.scripted.script import Script, ScriptedAnswer
from ninfer_core.engine.wire import BlockingReader, EngineStart, encode_frame, engine_decoder
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.prepare import prepare
from ninfer_core.plugins import PluginRegistry
from ninfer_core.telemetry import create_log
from ninfer_core.testing.histories import sampling
from ninfer_core.testing.simulated_frontend import SimulatedDecoder, SimulatedFrontend
from ninfer_core.testing.simulated_plan import simulated_plan
from ninfer_core.testing.simulated_program import simulated_program
from ninfer_core.testing.tiny import tiny_plan, write_tiny_artifact

SECONDS = 60.0
"""Longest wait for anything here; a process takes two or three to start."""


@dataclass(frozen=True)
class Subject:
    plan: ExecutionPlan
    source: str


@dataclass
class EngineProcess:
    """The front's end of an engine process."""

    process: subprocess.Popen[bytes]
    connection: socket.socket
    stream: BinaryIO

    def send(self, message: FrontMessage | EngineStart) -> None:
        self.connection.sendall(encode_frame(message))

    def until_end(self) -> list[EngineMessage]:
        reader = BlockingReader(self.stream, engine_decoder())
        return list(iter(reader.read, None))

    def until_ready(self) -> list[EngineMessage]:
        reader = BlockingReader(self.stream, engine_decoder())
        messages: list[EngineMessage] = []
        while not messages or not isinstance(messages[-1], Ready):
            message = reader.read()
            assert message is not None, f"ended after {messages}"
            messages.append(message)
        return messages

    def next_event(self) -> EngineMessage | None:
        return BlockingReader(self.stream, engine_decoder()).read()


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    source = str(write_tiny_artifact(tmp_path_factory.mktemp("engine") / "tiny.ninfer"))
    registry = PluginRegistry.discover()
    plan = tiny_plan(registry, open_artifact(source, registry).header, max_context=256, max_concurrency=2)
    return Subject(plan, source)


@pytest.fixture
def engine() -> Iterator[EngineProcess]:
    ours, theirs = socket.socketpair()
    ours.settimeout(SECONDS)
    with theirs:
        command = [sys.executable, "-m", "ninfer_core.engine.process", "--socket-fd", str(theirs.fileno())]
        process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), env={**os.environ, "OMP_NUM_THREADS": "1"})
    with ours, ours.makefile("rb") as stream:
        yield EngineProcess(process, ours, stream)
    process.kill()
    process.wait()


def submit(request_id: int, max_output_tokens: int = 30) -> Submit:
    now = time.monotonic()
    return Submit(
        request_id=request_id,
        prompt=pack_token_ids((65, 66, 67)),
        initial_channel="content",
        sampling=sampling(request_id),
        max_output_tokens=max_output_tokens,
        stop=(),
        stop_channels=("content",),
        received_monotonic=now,
        deadline_monotonic=now + SECONDS,
    )


def test_requests_over_the_socket(subject: Subject, engine: EngineProcess) -> None:
    engine.send(EngineStart(plan=subject.plan, source=subject.source))
    started = engine.until_ready()
    assert started[-1] == Ready(plan_digest=subject.plan.digest)
    assert {message.name for message in started if isinstance(message, PhaseDone)} >= {"weights", "pools", "warm-up"}
    for request_id in range(5):
        engine.send(submit(request_id))
    # Signals belong to the front; a Shutdown finishes what was submitted.
    engine.process.send_signal(signal.SIGINT)
    engine.process.send_signal(signal.SIGTERM)
    first = engine.next_event()
    assert isinstance(first, Event) and isinstance(first.event, Admitted)
    engine.send(Shutdown(drain=True))
    messages = engine.until_end()
    finished = {m.request_id: m.event for m in messages if isinstance(m, Event) and isinstance(m.event, Finished)}
    assert sorted(finished) == list(range(5))
    assert any(isinstance(m, Event) and isinstance(m.event, TextDelta) for m in messages)
    assert engine.process.wait(SECONDS) == 0


def test_an_engine_encodes_what_its_plan_has_in_codes(subject: Subject, engine: EngineProcess) -> None:
    options = ServeOptions(artifact=subject.source, weights="nvfp4", device="cpu", max_context=256)
    plan = prepare(options, PluginRegistry.discover()).plan
    assert plan.fingerprint != subject.plan.fingerprint
    engine.send(EngineStart(plan=plan, source=subject.source))
    assert engine.until_ready()[-1] == Ready(plan_digest=plan.digest)
    engine.send(submit(1))
    engine.send(Shutdown(drain=True))
    assert any(isinstance(m, Event) and isinstance(m.event, Finished) for m in engine.until_end())


def test_the_engine_ends_when_the_socket_does(subject: Subject, engine: EngineProcess) -> None:
    engine.send(EngineStart(plan=subject.plan, source=subject.source))
    engine.until_ready()
    engine.send(submit(1, max_output_tokens=200))
    engine.connection.shutdown(socket.SHUT_RDWR)
    began = time.monotonic()
    engine.process.wait(SECONDS)
    assert time.monotonic() - began < 5.0


def test_the_engine_dies_with_its_parent(subject: Subject, tmp_path: Path) -> None:
    parent = """
import os, socket, subprocess, sys
ours, theirs = socket.socketpair()
command = [sys.executable, "-m", "ninfer_core.engine.process", "--socket-fd", str(theirs.fileno())]
child = subprocess.Popen(command, pass_fds=(theirs.fileno(), ours.fileno()))
ours.sendall(open(sys.argv[1], "rb").read())
print(child.pid, flush=True)
ours.recv(1)
os.kill(os.getpid(), 9)
"""
    frame = tmp_path / "start"
    frame.write_bytes(encode_frame(EngineStart(plan=subject.plan, source=subject.source)))
    # The engine inherits both ends of the pair here, so the end of the socket alone would not tell it.
    running = subprocess.run([sys.executable, "-c", parent, str(frame)], capture_output=True, timeout=SECONDS)
    assert running.returncode == -signal.SIGKILL
    pid = int(running.stdout)
    deadline = time.monotonic() + 5.0
    while _runs(pid):
        assert time.monotonic() < deadline, "the engine outlives its parent"
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def test_an_artifact_that_is_gone_is_a_typed_end(subject: Subject, engine: EngineProcess) -> None:
    engine.send(EngineStart(plan=subject.plan, source=subject.source + ".gone.ninfer", log_level="off"))
    (fatal,) = engine.until_end()
    assert isinstance(fatal, Fatal)
    assert fatal.code == "artifact_invalid"
    assert engine.process.wait(SECONDS) == 1


def test_a_plan_of_other_plugins_is_refused(subject: Subject, engine: EngineProcess) -> None:
    plan = msgspec.structs.replace(subject.plan, ninfer_version="0.0.0")
    engine.send(EngineStart(plan=plan, source=subject.source, log_level="off"))
    (fatal,) = engine.until_end()
    assert isinstance(fatal, Fatal)
    assert fatal.code == "plan_rejected" and "0.0.0" in fatal.message


def test_a_tokenizer_smaller_than_the_embedding_starts_and_another_one_is_refused(
    subject: Subject, engine: EngineProcess
) -> None:
    assert subject.plan.token_domain < subject.plan.geometry.vocabulary_rows
    plan = msgspec.structs.replace(subject.plan, token_domain=subject.plan.token_domain - 1)
    engine.send(EngineStart(plan=plan, source=subject.source, log_level="off"))
    (fatal,) = engine.until_end()
    assert isinstance(fatal, Fatal)
    assert fatal.code == "start_failed" and "is read otherwise" in fatal.message


def test_an_artifact_that_was_replaced_after_the_plan_is_refused(
    subject: Subject, engine: EngineProcess, tmp_path: Path
) -> None:
    source = Path(subject.source)
    container = read_safetensors(source)
    metadata = {**container.metadata}
    other = tmp_path / "tiny.ninfer"
    (length,) = struct.unpack("<Q", source.read_bytes()[:8])
    header = json.loads(source.read_bytes()[8 : 8 + length])
    header["__metadata__"] = {**metadata, "remark": "longer"}
    rewritten = json.dumps(header).encode()
    rewritten += b" " * (-len(rewritten) % 8)
    other.write_bytes(struct.pack("<Q", len(rewritten)) + rewritten + source.read_bytes()[8 + length :])
    engine.send(EngineStart(plan=subject.plan, source=str(other), log_level="off"))
    (fatal,) = engine.until_end()
    assert isinstance(fatal, Fatal)
    assert fatal.code == "start_failed"
    assert f"fingerprint {subject.plan.fingerprint[:12]} then" in fatal.message


def test_a_build_that_fails_is_a_typed_end(subject: Subject, engine: EngineProcess) -> None:
    """It fails with a listener at the socket, which has to be ended too."""
    device = msgspec.structs.replace(subject.plan.device, kind="cuda")
    plan = msgspec.structs.replace(subject.plan, device=device)
    engine.send(EngineStart(plan=plan, source=subject.source, log_level="off"))
    *_, fatal = engine.until_end()
    assert isinstance(fatal, Fatal), fatal
    assert fatal.code == "start_failed" and "CUDA" in fatal.message
    assert engine.process.wait(SECONDS) == 1


def test_a_shutdown_while_loading_ends_the_process(subject: Subject, engine: EngineProcess) -> None:
    engine.send(EngineStart(plan=subject.plan, source=subject.source))
    engine.send(Shutdown(drain=False))
    assert engine.process.wait(SECONDS) == 0


@pytest.mark.parametrize("body", [b"\xa1\xa1\xff", b"\x83\xa4type\xa8shutdown\xa1x" + b"\x91" * 100_000, b"\xc0"])
def test_a_corrupted_frame_ends_the_engine_with_a_word_of_it(
    subject: Subject, engine: EngineProcess, body: bytes
) -> None:
    engine.send(EngineStart(plan=subject.plan, source=subject.source, log_level="off"))
    engine.until_ready()
    engine.send(submit(1, max_output_tokens=200))
    engine.connection.sendall(len(body).to_bytes(4, "little") + body)
    messages = engine.until_end()
    assert [m.code for m in messages if isinstance(m, Fatal)] == ["engine_link_broken"]
    assert engine.process.wait(SECONDS) == 1


def delta(request_id: int, text: str) -> Event:
    return Event(request_id=request_id, event=TextDelta(channel="content", text=text))


@pytest.mark.contract("GEN-3")
def test_a_decoder_that_yields_what_cannot_be_sent_fails_its_request_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    push = SimulatedDecoder.push

    def surrogates(self: SimulatedDecoder, token_id: int) -> tuple[ChannelText, ...]:
        return (ChannelText("reasoning", "\ud800"),) if self.channel == "reasoning" else push(self, token_id)

    monkeypatch.setattr(SimulatedDecoder, "push", surrogates)
    ours, theirs = socket.socketpair()
    publisher = Publisher(theirs)
    publisher.log = create_log("off")
    plan = simulated_plan(max_concurrency=4, kv_pages=16)
    program = simulated_program(plan)
    engine = InlineEngine(plan, SimulatedFrontend(), lambda on_phase: program, publisher.publish, create_log("off"))
    publisher.on_unsendable = lambda request_id: engine.post(Cancel(request_id=request_id))
    engine.start()
    for request_id in (1, 2, 3):
        sent = submit(request_id, max_output_tokens=100)
        engine.post(msgspec.structs.replace(sent, initial_channel="reasoning" if request_id == 2 else "content"))
    assert engine.stop(drain=True, timeout_seconds=SECONDS)
    publisher.close()
    theirs.close()
    with ours, ours.makefile("rb") as stream:
        messages = list(iter(BlockingReader(stream, engine_decoder()).read, None))
    finished = [m.request_id for m in messages if isinstance(m, Event) and isinstance(m.event, Finished)]
    assert sorted(finished) == [1, 3]
    ends = [message for message in messages if isinstance(message, Failed)]
    assert {end.request_id for end in ends} == {2}
    assert (ends[0].code, ends[0].category) == ("generation_failed", ErrorCategory.INTERNAL)
    # Nobody reads what it would still say, so it does not go on.
    assert ends[-1].code == "client_disconnected" and program.open_rows == 0


def test_a_publisher_that_cannot_send_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    ours.settimeout(SECONDS)
    publisher = Publisher(theirs)
    publisher.log = create_log("off")
    # Bytes are all that a socket takes.
    monkeypatch.setattr("ninfer_core.engine.publisher.encode_frame", lambda message: "text")
    publisher.publish(delta(1, "a"))
    assert ours.recv(1) == b""
    publisher.publish(delta(1, "b"))
    publisher.close()
    ours.close()
    theirs.close()


def test_the_engine_process_builds_no_frontend(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(header: ArtifactHeader) -> None:
        raise AssertionError("the engine decodes and prepares no prompt")

    monkeypatch.setattr("ninfer_models.qwen_hybrid.frontend.frontend.build_frontend", never)
    monkeypatch.setattr("ninfer_models.qwen_hybrid.frontend.build_frontend", never)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        publisher = Publisher(theirs)
        start = EngineStart(plan=subject.plan, source=subject.source)
        engine = build_engine(start, publisher, create_log("off"))
        script = Script(answers=(ScriptedAnswer(content="x"),))
        with pytest.raises(PluginBroken):
            build_engine(msgspec.structs.replace(start, script=script), publisher, create_log("off"))
        assert not engine.ready
        publisher.close()


def test_a_slow_front_bounds_the_publisher() -> None:
    ours, theirs = socket.socketpair()
    publisher = Publisher(theirs, capacity=8)
    sent = [msgspec.structs.replace(failed(number, RequestError("m")), message="m" * 100_000) for number in range(60)]

    def publish_all() -> None:
        for message in sent:
            publisher.publish(message)
        publisher.close()
        theirs.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=publish_all)
    thread.start()
    thread.join(0.3)
    assert thread.is_alive(), "nothing was read, so the publisher must wait"
    with ours.makefile("rb") as stream:
        received = list(iter(BlockingReader(stream, engine_decoder()).read, None))
    thread.join(SECONDS)
    assert received == sent
    ours.close()
    theirs.close()
