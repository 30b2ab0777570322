"""`ninfer serve` as it is started, in its two processes: for tests of faults, signals and clients."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

START_SECONDS = 120.0


def until(condition: Callable[[], bool], seconds: float) -> float:
    """Wait for `condition`; -> how long it took. Fails after `seconds`."""
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < seconds, f"it did not come true in {seconds} s"
        time.sleep(0.02)
    return time.monotonic() - begin


def is_alive(process_id: int) -> bool:
    """Whether it still runs: a zombie that nobody has waited for does not."""
    try:
        status = Path(f"/proc/{process_id}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return "State:\tZ" not in status


def serve_command(*arguments: str) -> list[str]:
    program = "import sys; from ninfer_core.cli.main import main; sys.exit(main())"
    return [sys.executable, "-c", program, "serve", *arguments]


def serve_environment() -> dict[str, str]:
    """One thread for each process: tests run beside each other."""
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@dataclass
class ServerProcess:
    """A running server; `log` grows as it writes."""

    process: subprocess.Popen[str]
    log: list[str] = field(default_factory=list)
    _reader: threading.Thread | None = None

    def follow(self) -> None:
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_ready(self) -> None:
        until(lambda: self.ready_line is not None or self.process.poll() is not None, START_SECONDS)
        assert self.ready_line is not None, "".join(self.log)

    @property
    def ready_line(self) -> str | None:
        return next((line for line in list(self.log) if " ready " in line), None)

    @property
    def url(self) -> str:
        assert self.ready_line is not None
        found = re.search(r"url=(\S+)", self.ready_line)
        assert found is not None
        return found.group(1)

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def engine_id(self) -> int:
        """Of the engine process: the only child of the front."""
        (number,) = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(number)

    def open_files(self) -> int:
        """File descriptors of the front."""
        return sum(1 for _ in Path(f"/proc/{self.process.pid}/fd").iterdir())

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.log.extend(iter(self.process.stderr.readline, ""))

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        if self._reader is not None:
            self._reader.join(10)
        assert self.process.stderr is not None
        self.process.stderr.close()


@contextmanager
def server_process(*arguments: str, new_session: bool = False) -> Iterator[ServerProcess]:
    """Serve on the CPU and a free port until the block ends, then kill what is left. With `new_session` front and
    engine are a process group of their own."""
    started = subprocess.Popen(
        serve_command("--device", "cpu", "--port", str(free_port()), *arguments),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=serve_environment(),
        start_new_session=new_session,
    )
    served = ServerProcess(started)
    served.follow()
    try:
        served.wait_ready()
        yield served
    finally:
        served.close()
