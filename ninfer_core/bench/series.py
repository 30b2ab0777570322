"""Which row of a campaign is next, while there is time, and what becomes of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ninfer_core.bench.journal import Journal, Standing
from ninfer_core.bench.worker import Answer, Measure, Task, Worker

PATIENCE_FACTOR = 3.0
LEAST_PATIENCE_SECONDS = 120.0
"""A row that takes that much longer than it should is given up: kernels that wait for each other wait for ever, and the
rows behind it are worth more."""

Clock = Callable[[], float]


class Series:
    """Measures tasks one after the other. Every one that is `fresh` is begun in a process of its own; else the process
    goes on with the next one as long as nothing stays behind."""

    def __init__(
        self,
        tasks: Sequence[Task],
        journal: Journal,
        code: str,
        measure: Measure,
        say: Callable[[str], None],
        *,
        fresh: bool = False,
        clock: Clock = time.monotonic,
    ) -> None:
        self._tasks = tasks
        self._journal = journal
        self._code = code
        self._measure = measure
        self._say = say
        self._fresh = fresh
        self._clock = clock
        self._begun = clock()
        self._expected = self._taken = 0.0

    def standing(self, task: Task) -> Standing:
        return self._journal.standing(task.name, task.words, self._code)

    def estimate(self, task: Task) -> float:
        """Seconds that a task will take: what it took before, or is thought to, times how much longer than that those
        of this series took."""
        pace = self._taken / self._expected if self._expected else 1.0
        return pace * self._usual(task)

    def run(self, limit_seconds: float | None = None, resume: bool = False) -> None:
        """All tasks in their order, of which none is begun that would not end within the limit, counted from when this
        was made. With `resume` those that passed are left out, and those that did not are tried last."""
        waiting = list(self._tasks)
        if resume:
            waiting = [task for task in waiting if self.standing(task) != "passed"]
            waiting.sort(key=lambda task: self.standing(task) != "new")
        worker = Worker(self._measure)
        try:
            while (task := self._next(waiting, limit_seconds)) is not None:
                waiting.remove(task)
                self._measured(task, worker)
                if self._fresh:
                    worker.close()
        finally:
            worker.close()

    def _next(self, waiting: Sequence[Task], limit_seconds: float | None) -> Task | None:
        """The first that fits into what is left."""
        if limit_seconds is None:
            return waiting[0] if waiting else None
        left = limit_seconds - (self._clock() - self._begun)
        return next((task for task in waiting if self.estimate(task) <= left), None)

    def _measured(self, task: Task, worker: Worker) -> None:
        usual, begin = self._usual(task), self._clock()
        patience = max(LEAST_PATIENCE_SECONDS, PATIENCE_FACTOR * self.estimate(task))
        self._journal.note(task.name, task.words, self._code, "begun")
        self._say(f"--- {task.name}, at {begin - self._begun:.0f} s: ninfer bench engine {task.words}")
        answer = worker.ask(task, self._say, patience)
        seconds = self._clock() - begin
        if answer.event in {"passed", "wrong"}:
            self._expected += usual
            self._taken += seconds
        self._noted(task, answer, seconds)

    def _noted(self, task: Task, answer: Answer, seconds: float) -> None:
        self._journal.note(
            task.name,
            task.words,
            self._code,
            answer.event,
            seconds=seconds,
            message=answer.message,
            file=answer.file,
        )
        self._say(f"--- {task.name} {answer.event} after {seconds:.1f} s  {answer.message or answer.file}")

    def _usual(self, task: Task) -> float:
        found = self._journal.seconds(task.name, task.words)
        return task.seconds if found is None else found
