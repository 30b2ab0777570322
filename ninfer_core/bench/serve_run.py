"""`ninfer bench serve`: a load on a server that runs, or on one that is started for it."""

from __future__ import annotations

import multiprocessing
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import msgspec

from ninfer_core.api.errors import StartFailed
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.bench.code import Code, code_of
from ninfer_core.bench.load import Client, Load, run_load
from ninfer_core.bench.machine import machine_of
from ninfer_core.bench.records import Run
from ninfer_core.bench.wording import check_line, load_line
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.prepare import prepare
from ninfer_core.plugins.registry import PluginRegistry

STOP_SECONDS = 30.0
QUIET_LEVEL = "warning"
"""Of the started server's log, unless one is asked for."""
ELSEWHERE = "of another process"
"""The digest of a run whose server was not started here."""

Serve = Callable[[ServeOptions], None]


def bench_serve(options: ServeOptions, load: Load, serve: Serve, say: Callable[[str], None]) -> Run:
    """One run. `serve` serves until it is ended; it is called in a process of its own when the artifact is no URL.
    Raises StartupErrors, and StartFailed when the server does not answer in the time of the load."""
    artifact = options.artifact or ""
    if artifact.startswith(("http://", "https://")):
        return _run(artifact, load, None, Code("", ""), say)
    registry = PluginRegistry.discover()
    plan, code = prepare(options, registry).plan, code_of(registry)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    level = options.log_level if "log_level" in options.origins else QUIET_LEVEL
    options = msgspec.structs.replace(options, host="127.0.0.1", port=port, log_level=level)
    with _served(options, serve, load.seconds):
        return _run(f"http://127.0.0.1:{port}", load, plan, code, say)


def _run(url: str, load: Load, plan: ExecutionPlan | None, code: Code, say: Callable[[str], None]) -> Run:
    client = Client(url, load)
    figures, checks = run_load(client, load)
    for figure in figures:
        say(load_line(figure))
    for check in checks:
        say(check_line(check))
    return Run(
        kind="serve",
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        digest=ELSEWHERE if plan is None else plan.digest,
        model=client.model,
        machine=machine_of(plan),
        figures=(),
        loads=tuple(figures),
        checks=tuple(checks),
        remarks=(
            f"{load.requests} prompts of {load.prompt_words} words, {load.output_tokens} tokens at most each",
            *(f"no time for {clients} clients (--seconds)" for clients in load.concurrency[len(figures) :]),
        ),
        plan=plan,
        code=code.digest,
        commit=code.commit,
    )


@contextmanager
def _served(options: ServeOptions, serve: Serve, seconds: float) -> Iterator[None]:
    """A server in a process of its own, from when it listens to the end of the block."""
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(options,), name="ninfer-serve")
    process.start()
    try:
        assert options.port is not None
        _wait(options.port, process.is_alive, time.monotonic() + seconds)
        yield
    finally:
        process.terminate()
        process.join(STOP_SECONDS)
        process.kill()


def _wait(port: int, alive: Callable[[], bool], deadline: float) -> None:
    """Until somebody listens; who asks before the server is ready is answered when it is."""
    while True:
        if not alive():
            raise StartFailed("the server ended before it was ready; its log says why")
        if time.monotonic() > deadline:
            raise StartFailed("the server was not ready in the time given with --seconds")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
