"""The engine process: `python -m ninfer_core.engine.process --socket-fd N`.

The first frame says what to run; then FrontMessages come in and EngineMessages go out. The process ends when the
engine has, when the socket ends, or when the parent dies. SIGINT and SIGTERM are left to the front, which drains: a
terminal sends the one, and a service manager the other, to the whole process group.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import socket
import sys
import threading
import time
from typing import BinaryIO

from ninfer_core.api.errors import NinferError, StartFailed
from ninfer_core.api.frontend import OutputVocabulary
from ninfer_core.artifact import open_artifact
from ninfer_core.artifact.encoding import encoded_artifact
from ninfer_core.artifact.fingerprint import artifact_fingerprint
from ninfer_core.artifact.frontend import checked_frontend, output_vocabulary
from ninfer_core.engine.inline import BuildProgram, InlineEngine
from ninfer_core.engine.messages import Cancel, Fatal, PhaseDone, fatal
from ninfer_core.engine.parent import die_with_parent
from ninfer_core.engine.publisher import GRACE_SECONDS, Publisher
from ninfer_core.engine.scripted.program import scripted_engine
from ninfer_core.engine.wire import (
    BlockingReader,
    EngineStart,
    FrameInvalid,
    front_decoder,
    start_decoder,
)
from ninfer_core.plan.pins import resolve_pinned
from ninfer_core.plugins import PluginRegistry
from ninfer_core.program.contract import OnPhase, Program
from ninfer_core.program.start import start_program
from ninfer_core.telemetry import Log, create_log, forward_standard_logging


class Listener:
    """Posts what the front sends, from a thread of its own. When the front is gone, or what it sends cannot be
    understood (`broken`), the engine is ended, by force if it does not end by itself."""

    def __init__(self, stream: BinaryIO, engine: InlineEngine, publisher: Publisher, log: Log) -> None:
        self._reader = BlockingReader(stream, front_decoder())
        self._engine = engine
        self._publisher = publisher
        self._log = log
        self.broken = False
        self.start_failed = False
        """Set when the engine will never be ready: then the process ends by itself, with the exit code for that."""
        self._thread = threading.Thread(target=self._run, name="ninfer-reader", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """For at most the grace time."""
        self._thread.join(GRACE_SECONDS)

    def _run(self) -> None:
        try:
            self._post_all()
        except Exception as error:
            # A thread that just ended would leave an engine that nobody can reach.
            self.broken = True
            self._log.critical("engine_link_broken", exc_info=error)
            self._publisher.publish(Fatal(code=FrameInvalid.code, message=f"{type(error).__name__} in the engine"))
        if self.start_failed:
            return
        if not self._engine.ready:
            os._exit(int(self.broken))
        if not self._engine.stop(timeout_seconds=GRACE_SECONDS):
            os._exit(1)

    def _post_all(self) -> None:
        while (message := self._reader.read()) is not None:
            if self.start_failed:
                return
            if not self._engine.ready:
                # Only a Shutdown comes before Ready, and loading cannot be interrupted in any gentler way.
                os._exit(0)
            self._engine.post(message)


def build_engine(start: EngineStart, publisher: Publisher, log: Log) -> InlineEngine:
    """The engine that `start` asks for, not started yet. Raises StartupErrors."""
    plan = start.plan
    registry = PluginRegistry.discover()
    (family,) = resolve_pinned(plan, registry)["family"]
    artifact = encoded_artifact(open_artifact(start.source, registry), family, plan.identity.weights_id)
    header = artifact.header
    if (found := artifact_fingerprint(header)) != plan.fingerprint:
        raise StartFailed(
            f"{plan.source} has changed since the plan was made (fingerprint {plan.fingerprint[:12]} then, "
            f"{found[:12]} now); start again"
        )
    geometry = family.hook.ninfer_family_geometry(header=header, activation_dtype=plan.activation_dtype)
    # Prompts are made by the front: a template is here only for the answers of a script to be written with it.
    frontend = None if start.script is None else checked_frontend(family, header, geometry)
    vocabulary = output_vocabulary(family, header) if frontend is None else frontend
    if (header.identity, geometry, vocabulary.token_domain) != (plan.identity, plan.geometry, plan.token_domain):
        raise StartFailed(f"{plan.source} is read otherwise than when the plan was made; start again")

    def inline(vocabulary: OutputVocabulary, build_program: BuildProgram) -> InlineEngine:
        return InlineEngine(
            plan, vocabulary, build_program, publisher.publish, log, stats_interval_ms=start.stats_interval_ms
        )

    if frontend is not None and start.script is not None:
        scripted, program = scripted_engine(plan, frontend, start.script)
        return inline(scripted, lambda on_phase: program)

    def build(on_phase: OnPhase) -> Program:
        with artifact.open_weights() as weights:
            return start_program(plan, header, weights, registry, on_phase)

    return inline(vocabulary, build)


def serve(connection: socket.socket) -> int:
    """Run the engine that the peer asks for until it ends; -> exit code."""
    publisher = Publisher(connection)
    with connection.makefile("rb") as stream:
        try:
            return _serve(stream, publisher)
        except NinferError as error:
            publisher.log.error("engine_start_failed", code=error.code)
            publisher.publish(fatal(error, error.code))
            return 1
        except Exception as error:
            publisher.log.critical("engine_start_failed", exc_info=error)
            publisher.publish(fatal(error, StartFailed.code))
            return 1
        finally:
            publisher.close()
            # Before the stream is closed: its lock is held by a listener that reads, and the end of the connection is
            # what ends that read.
            publisher.end_connection()


def _serve(stream: BinaryIO, publisher: Publisher) -> int:
    """Raises what keeps the engine from starting."""
    start = BlockingReader(stream, start_decoder()).read()
    if start is None:
        return 0
    log = publisher.log = create_log(start.log_level)
    forward_standard_logging("ninfer", log)
    begin = time.monotonic()
    engine = build_engine(start, publisher, log)
    publisher.on_unsendable = lambda request_id: engine.post(Cancel(request_id=request_id))
    publisher.publish(PhaseDone(name="vocabulary", seconds=time.monotonic() - begin))
    listener = Listener(stream, engine, publisher, log)
    try:
        engine.start()
    except BaseException:
        listener.start_failed = True
        raise
    # What a start makes stays: looking through it for garbage again would hold rounds up.
    gc.collect()
    gc.freeze()
    succeeded = engine.wait()
    publisher.close()
    publisher.end_connection()
    listener.join()
    return 0 if succeeded and not listener.broken else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="ninfer_core.engine.process", description=__doc__)
    parser.add_argument("--socket-fd", type=int, required=True, help="the engine's end of a stream socket pair")
    arguments = parser.parse_args()
    die_with_parent()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with socket.socket(fileno=arguments.socket_fd) as connection:
        return serve(connection)


if __name__ == "__main__":
    sys.exit(main())
