"""How much of a round the device waits for the engine: the figure of the engine's own meter, with every row busy."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from ninfer_core.api.errors import StartFailed
from ninfer_core.api.frontend import OutputVocabulary
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.api.service import Finished
from ninfer_core.bench.driver import GREEDY
from ninfer_core.engine.inline import InlineEngine
from ninfer_core.engine.messages import EngineMessage, Event, Failed, Fatal, Submit, Throughput, pack_token_ids
from ninfer_core.program.contract import Program

INTERVAL_MS = 250
PATIENCE_SECONDS = 120.0


class _Listener:
    """Keeps the intervals, counts the ends and notes the first failure. Called from the engine's thread."""

    def __init__(self, requests: int) -> None:
        self.intervals: list[Throughput] = []
        self.ended = threading.Event()
        self.failure: str | None = None
        self._open = requests

    def __call__(self, message: EngineMessage) -> None:
        if isinstance(message, Throughput):
            self.intervals.append(message)
        elif isinstance(message, Event) and isinstance(message.event, Finished):
            self._open -= 1
            if self._open == 0:
                self.ended.set()
        elif isinstance(message, Failed | Fatal):
            self.failure = f"{message.code}: {message.message}"
            self.ended.set()


def exposed_share(
    plan: ExecutionPlan, program: Program, vocabulary: OutputVocabulary, prompts: Sequence[Sequence[int]], tokens: int
) -> float | None:
    """Share of the time that the device stood still, over the intervals in which nothing was prefilled; None where
    there was no such interval. The engine closes the program in the end. Raises StartFailed when it fails, or is not
    done in PATIENCE_SECONDS."""
    listener = _Listener(len(prompts))
    with InlineEngine(plan, vocabulary, lambda on_phase: program, listener, stats_interval_ms=INTERVAL_MS) as engine:
        now = time.monotonic()
        for number, prompt in enumerate(prompts):
            engine.post(
                Submit(
                    request_id=number,
                    prompt=pack_token_ids(prompt),
                    initial_channel="content",
                    sampling=GREEDY,
                    max_output_tokens=tokens,
                    stop=(),
                    stop_channels=(),
                    received_monotonic=now,
                    deadline_monotonic=now + PATIENCE_SECONDS,
                )
            )
        if not listener.ended.wait(PATIENCE_SECONDS):
            raise StartFailed(f"{len(prompts)} answers of {tokens} tokens were not done in {PATIENCE_SECONDS:g} s")
    if listener.failure is not None:
        raise StartFailed(f"the engine failed while its share of the time was measured: {listener.failure}")
    steady = [each for each in listener.intervals if not each.prefill_tokens and each.decode_rounds]
    seconds = sum(each.seconds for each in steady)
    return sum(each.host_seconds for each in steady) / seconds if steady else None
