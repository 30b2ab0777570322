"""What a worker does with one row of a campaign."""

from __future__ import annotations

import dataclasses

from ninfer_core.api.errors import NinferError
from ninfer_core.bench.worker import Answer, Say, Task
from ninfer_core.plan.units import MIB, format_bytes
from ninfer_core.plugins.registry import PluginRegistry
from ninfer_core.program.start import settle_environment

KEPT_BYTES = 256 * MIB
"""Libraries keep some of the device for the life of a process. More than this is a program that something still
holds, and the next row would not have its memory."""


def measure_row(task: Task, say: Say) -> Answer:
    """`ninfer bench engine` as the row's words say, its result written. A row that is refused, or whose start fails in
    a way that is known, has failed; anything else is raised."""
    settle_environment("cpu" if task.options.device == "cpu" else "cuda")
    from ninfer_core.bench.accelerator import give_back

    try:
        answer = _measured(task, say)
    except NinferError as error:
        answer = Answer("failed", " ".join(f"{error.code}: {error.message}".split()))
    # Only here, where the error has let go of what it was raised from.
    try:
        kept = give_back()
    except RuntimeError as error:
        say(f"the device does not answer any more ({error}): the next row has a process of its own")
        return dataclasses.replace(answer, sound=False)
    if kept > KEPT_BYTES:
        say(f"memory {format_bytes(kept)} are still held: the next row has a process of its own")
    return dataclasses.replace(answer, sound=kept <= KEPT_BYTES)


def _measured(task: Task, say: Say) -> Answer:
    from ninfer_core.bench.engine_run import bench_engine
    from ninfer_core.bench.records import save
    from ninfer_core.bench.verify import with_verify
    from ninfer_core.bench.wording import closing_lines

    run = bench_engine(task.options, task.cases, with_verify(PluginRegistry.discover()), say)
    for line in closing_lines(run):
        say(line)
    path = save(run, task.folder)
    wrong = ", ".join(check.name for check in run.failed)
    return Answer("wrong" if wrong else "passed", f"checks failed: {wrong}" if wrong else "", path.name)
