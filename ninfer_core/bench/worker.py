"""A process that measures one row of a campaign after the other, and is asked for each.

What a row may do to it, it does not do to the campaign: a process that dies, or that says nothing for too long, is a
row that failed. Nothing here imports torch: the process that asks never touches the device.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from ninfer_core.bench.journal import Event
from ninfer_core.bench.records import EngineCases
from ninfer_core.engine.parent import die_with_parent
from ninfer_core.plan.options import ServeOptions

END_SECONDS = 10.0
"""For a process that was told to end; then it is killed."""


@dataclass(frozen=True, slots=True)
class Task:
    """A row: `options` and `cases` of `ninfer bench engine`, which are what its `words` say. `folder` is for its
    result, `seconds` about what it takes."""

    name: str
    words: str
    seconds: float
    options: ServeOptions
    cases: EngineCases
    folder: Path


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a row. A process that is not `sound` has something left of it on the device, or may have."""

    event: Event
    message: str = ""
    file: str = ""
    sound: bool = True


Say = Callable[[str], None]
Measure = Callable[[Task, Say], Answer]


class Worker:
    """Asks a process, started at the first task and again after one that it did not survive. `measure` is known to it
    by its name."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection | None = None

    def ask(self, task: Task, say: Say, patience_seconds: float) -> Answer:
        """Have a task measured, handing on what is said of it meanwhile."""
        connection, deadline = self._connected(), time.monotonic() + patience_seconds
        try:
            connection.send(task)
            while connection.poll(max(0.0, deadline - time.monotonic())):
                message = connection.recv()
                if isinstance(message, Answer):
                    if not message.sound:
                        self.close()
                    return message
                say(message)
        except (EOFError, OSError):
            return Answer("failed", f"its process ended with exit code {self._ended(END_SECONDS)}", sound=False)
        self._ended(0.0)
        return Answer("failed", f"it was given up after {patience_seconds:.0f} s", sound=False)

    def close(self) -> None:
        """End the process, which nothing is asked of at this moment."""
        self._ended(END_SECONDS)

    def _connected(self) -> Connection:
        if self._connection is None:
            context = multiprocessing.get_context("spawn")
            self._connection, theirs = context.Pipe()
            self._process = context.Process(target=measure_tasks, args=(theirs, self._measure), daemon=True)
            self._process.start()
            theirs.close()
        return self._connection

    def _ended(self, patience_seconds: float) -> int | None:
        """The exit code of the process that was."""
        process, connection, self._process, self._connection = self._process, self._connection, None, None
        if process is None or connection is None:
            return None
        connection.close()
        process.join(patience_seconds)
        process.kill()
        process.join()
        return process.exitcode


def measure_tasks(connection: Connection, measure: Measure) -> None:
    """The life of the process: answers every task until nobody asks any more, or who asked is dead: then another one
    may want the device."""
    die_with_parent()
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        connection.send(_answer(task, measure, connection.send))


def _answer(task: Task, measure: Measure, say: Say) -> Answer:
    try:
        return measure(task, say)
    # Whatever it is ends one row, and with it this process: nobody knows what it has left on the device.
    except Exception as error:
        first_line = str(error).partition("\n")[0]
        return Answer("failed", f"{type(error).__name__}: {first_line}", sound=False)
