"""The engine process: `python -m ninfer_core.engine.process --socket-fd N`.

The first frame says what to run; then FrontMessages come in and EngineMessages go out. The process ends when the
engine has, when the socket ends, or when the parent dies. SIGTERM drains; SIGINT is left to the front, which gets it
from the same terminal.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import socket
import sys
import threading
import time
from collections import deque
from typing import BinaryIO

from ninfer_core.api.errors import NinferError, StartFailed
from ninfer_core.api.frontend import Frontend
from ninfer_core.artifact import open_artifact
from ninfer_core.artifact.frontend import checked_frontend
from ninfer_core.engine.inline import BuildProgram, InlineEngine, OnPhase
from ninfer_core.engine.messages import EngineMessage, Fatal, PhaseDone, Shutdown
from ninfer_core.engine.scripted.program import scripted_engine
from ninfer_core.engine.wire import (
    BlockingReader,
    EngineStart,
    FrameInvalid,
    encode_frame,
    front_decoder,
    start_decoder,
)
from ninfer_core.plan.pins import resolve_pinned
from ninfer_core.plugins import PluginRegistry
from ninfer_core.program.contract import Program
from ninfer_core.program.start import start_program
from ninfer_core.telemetry import Log, create_log, forward_standard_logging

GRACE_SECONDS = 5.0
"""How long the engine may take to stop once nobody listens; a unit of work lasts far less."""

_PR_SET_PDEATHSIG = 1


class Publisher:
    """Sends messages from a thread of its own, so that a front that is slow to read does not hold a round up.

    What waits to be sent is bounded by `capacity` messages: beyond, `publish` waits for the front after all.
    """

    def __init__(self, connection: socket.socket, capacity: int = 65_536) -> None:
        self._connection = connection
        self._capacity = capacity
        self._waiting: deque[EngineMessage] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="ninfer-publisher", daemon=True)
        self._thread.start()

    def publish(self, message: EngineMessage) -> None:
        """Thread-safe. Once the front is gone, messages are dropped."""
        with self._changed:
            while len(self._waiting) >= self._capacity and not self._closed:
                self._changed.wait()
            if not self._closed:
                self._waiting.append(message)
                self._changed.notify_all()

    def close(self) -> None:
        """Send what waits, for at most the grace time."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join(GRACE_SECONDS)

    def _run(self) -> None:
        while batch := self._next_batch():
            try:
                self._connection.sendall(b"".join(map(encode_frame, batch)))
            except OSError:
                # The front is gone; the reader sees that too and ends the engine.
                with self._changed:
                    self._closed = True
                    self._waiting.clear()
                    self._changed.notify_all()
                return

    def _next_batch(self) -> list[EngineMessage]:
        """Everything that waits; empty when nothing will come any more."""
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            batch = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
            return batch


def build_engine(start: EngineStart, publisher: Publisher, log: Log) -> InlineEngine:
    """The engine that `start` asks for, not started yet. Raises StartupErrors."""
    plan = start.plan
    registry = PluginRegistry.discover()
    (family,) = resolve_pinned(plan, registry)["family"]
    artifact = open_artifact(start.source, registry)
    header = artifact.header
    geometry = family.hook.ninfer_family_geometry(header=header, activation_dtype=plan.activation_dtype)
    frontend = checked_frontend(family, header, geometry)
    if (header.identity, geometry, frontend.token_domain) != (plan.identity, plan.geometry, plan.token_domain):
        raise StartFailed(f"{plan.source} has changed since the plan was made; start again")

    def inline(frontend: Frontend, build_program: BuildProgram) -> InlineEngine:
        return InlineEngine(
            plan, frontend, build_program, publisher.publish, log, stats_interval_ms=start.stats_interval_ms
        )

    if start.script is not None:
        scripted, program = scripted_engine(plan, frontend, family.hook.ninfer_family_output_format(), start.script)
        return inline(scripted, lambda on_phase: program)

    def build(on_phase: OnPhase) -> Program:
        with artifact.open_weights() as weights:
            return start_program(plan, header, weights, registry, on_phase)

    return inline(frontend, build)


def serve(connection: socket.socket) -> int:
    """Run the engine that the peer asks for until it ends; -> exit code."""
    publisher = Publisher(connection)
    log = create_log()
    reader: threading.Thread | None = None
    try:
        with connection.makefile("rb") as stream:
            start = BlockingReader(stream, start_decoder()).read()
            if start is None:
                return 0
            log = create_log(start.log_level)
            forward_standard_logging("ninfer", log)
            begin = time.monotonic()
            engine = build_engine(start, publisher, log)
            publisher.publish(PhaseDone(name="frontend", seconds=time.monotonic() - begin))
            reader = threading.Thread(target=_listen, args=(stream, engine, log), name="ninfer-reader", daemon=True)
            reader.start()
            signal.signal(signal.SIGTERM, lambda number, frame: _drain(engine))
            engine.start()
            succeeded = engine.wait()
            publisher.close()
            connection.shutdown(socket.SHUT_RDWR)  # ends the reader, which holds the stream
            reader.join(GRACE_SECONDS)
            return 0 if succeeded else 1
    except NinferError as error:
        log.error("engine_start_failed", code=error.code)
        publisher.publish(Fatal(code=error.code, message=error.message))
        return 1
    except Exception as error:
        log.critical("engine_start_failed", exc_info=error)
        publisher.publish(Fatal(code=StartFailed.code, message=f"{type(error).__name__}: {error}"))
        return 1
    finally:
        publisher.close()


def _listen(stream: BinaryIO, engine: InlineEngine, log: Log) -> None:
    """Post what the front sends. When it is gone, end the engine, by force if it does not end by itself."""
    reader = BlockingReader(stream, front_decoder())
    try:
        while (message := reader.read()) is not None:
            if not engine.ready:
                # Only a Shutdown comes before Ready, and loading cannot be interrupted in any gentler way.
                os._exit(0)
            engine.post(message)
    except (FrameInvalid, OSError, ValueError) as error:
        log.error("engine_link_broken", reason=str(error))
    if not engine.ready:
        os._exit(1)
    if not engine.stop(timeout_seconds=GRACE_SECONDS):
        os._exit(1)


def _drain(engine: InlineEngine) -> None:
    if not engine.ready:
        os._exit(0)
    engine.post(Shutdown(drain=True))


def _die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent dies; elsewhere the end of the socket has to do."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> int:
    parser = argparse.ArgumentParser(prog="ninfer_core.engine.process", description=__doc__)
    parser.add_argument("--socket-fd", type=int, required=True, help="the engine's end of a stream socket pair")
    arguments = parser.parse_args()
    _die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=arguments.socket_fd) as connection:
        return serve(connection)


if __name__ == "__main__":
    sys.exit(main())
