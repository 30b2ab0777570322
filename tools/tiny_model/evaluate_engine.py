"""The held-out prompts through the engine of this process: the server without its wire, so it runs where no web
framework is installed, on a GPU too.

`python -m tools.tiny_model.evaluate_engine [ARTIFACT] --modes low medium off --out scores.json`; the file is written as
the answers come, and measurements that it has already are kept.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from ninfer_protocols.openai_chat import ninfer_protocol_lower

from ninfer_core.api.whole_answer import WholeAnswer, whole_answer
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.prepare import Prepared, prepare
from ninfer_core.plugins import PluginRegistry
from ninfer_core.program.start import start_program
from ninfer_core.serving.inline_link import InlineLink
from ninfer_core.serving.service import EngineService
from ninfer_core.telemetry import create_log
from tools.tiny_model.episode import Call
from tools.tiny_model.generate import MODES, Item, Mode
from tools.tiny_model.heldout import held_out_items
from tools.tiny_model.newcomers import Calls, Request, requests
from tools.tiny_model.noise import interval
from tools.tiny_model.outcomes import Outcome, request_body
from tools.tiny_model.scores import Measurement, commit, read_scores, today, write_scores

MODEL = "ninfer-tiny"
NEWCOMERS = "newcomers"
# The file is written anew after so many answers.
ANSWERS_BETWEEN_WRITES = 25
ROWS = 8
LONGEST = 8192
# No answer is refused because others share the machine.
LONGEST_WAIT_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Question:
    """`right` is given the content and the calls of an answer."""

    skill: str
    body: dict[str, Any]
    right: Callable[[str, Calls], bool]


async def answer_all(
    prepared: Prepared,
    bodies: Sequence[dict[str, Any]],
    on_answer: Callable[[int, WholeAnswer], None],
    seconds: float = math.inf,
) -> None:
    """Request bodies of the OpenAI chat interface, `ROWS` at a time; `on_answer` gets the index of a body and its
    answer. Those whose turn does not come within `seconds` are left out."""
    log = create_log("error")
    plan, frontend = prepared.plan, prepared.resolution.frontend

    def build(on_phase: Callable[[str, float], None]) -> Any:
        with contextlib.closing(prepared.artifact.open_weights()) as weights:
            return start_program(plan, prepared.artifact.header, weights, prepared.registry, on_phase)

    link = InlineLink(plan, frontend, build, log)
    gate = asyncio.Semaphore(ROWS)
    try:
        await link.start(lambda name, seconds: None)
        service = EngineService(plan, frontend, link, plan.identity.model_id, log)

        end = time.monotonic() + seconds

        async def answer(index: int, body: dict[str, Any]) -> None:
            async with gate:
                if time.monotonic() <= end:
                    request = ninfer_protocol_lower(json.dumps(body).encode())
                    on_answer(index, await whole_answer(await service.start(request, None)))

        await asyncio.gather(*(answer(index, body) for index, body in enumerate(bodies)))
    finally:
        await link.stop()


def calls_of(answer: WholeAnswer) -> Calls:
    return [(call.name, call.arguments) for call in answer.calls]


def of_item(item: Item) -> Question:
    def right(content: str, calls: Calls) -> bool:
        made = tuple(Call(name, tuple(arguments.items())) for name, arguments in calls)
        return Outcome(item, content, made).right

    return Question(item.skill, request_body(MODEL, item), right)


def of_newcomer(request: Request, mode: Mode) -> Question:
    return Question(NEWCOMERS, request.body(MODEL, thinking=mode != "off"), request.right)


def in_turn(questions: Iterable[Question], skills: Sequence[str] | None) -> list[Question]:
    """One of each skill, then another of each: whatever is left out in the end is left out of all."""
    by_skill: dict[str, list[Question]] = {}
    for question in questions:
        if not skills or question.skill in skills:
            by_skill.setdefault(question.skill, []).append(question)
    return [question for group in zip(*by_skill.values(), strict=True) for question in group]


class Tally:
    """Counts of one mode, written to the score file as they grow."""

    def __init__(self, facts: Measurement, mode: Mode, questions: Sequence[Question], out: Path | None) -> None:
        self.facts, self.mode, self.questions, self.out = facts, mode, questions, out
        self.right: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.before = read_scores(out).measurements if out and out.exists() else ()

    def add(self, index: int, answer: WholeAnswer) -> None:
        question = self.questions[index]
        self.asked[question.skill] += 1
        self.right[question.skill] += question.right(answer.content, calls_of(answer))
        if self.asked.total() % ANSWERS_BETWEEN_WRITES == 0:
            self.write()

    def write(self) -> None:
        if self.out and self.asked:
            counts = {skill: (self.right[skill], asked) for skill, asked in self.asked.items()}
            write_scores(self.out, *self.before, msgspec.structs.replace(self.facts, scores={self.mode: counts}))

    def lines(self) -> Iterator[str]:
        for skill, asked in self.asked.items():
            low, high = interval((self.right[skill], asked))
            share = 100 * self.right[skill] / asked
            yield f"  {skill}: {self.right[skill]} of {asked}, {share:.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def facts(prepared: Prepared) -> Measurement:
    plan = prepared.plan
    return Measurement(
        date=today(), engine=f"{commit()}, plan {plan.digest}", device=plan.device.name, dtype=plan.activation_dtype
    )


def questions_of(mode: Mode, arguments: argparse.Namespace) -> Iterable[Question]:
    if arguments.newcomers:
        return (of_newcomer(request, mode) for request in requests())
    return map(of_item, held_out_items(arguments.per_skill, mode, long=arguments.long))


def options_of(artifact: str | None, device: str | None, **spec: Any) -> ServeOptions:
    return ServeOptions(
        artifact=artifact, device=int(device) if device and device.isdigit() else device, max_concurrency=ROWS,
        kv_capacity=ROWS * LONGEST, pending_timeout_ms=LONGEST_WAIT_MS, **spec,
    )  # fmt: skip


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifact", nargs="?")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--per-skill", type=int, default=200)
    parser.add_argument("--long", action="store_true", help="the dialogues of up to 8 k tokens instead")
    parser.add_argument(
        "--newcomers", action="store_true", help="the first requests of newcomers instead: xhigh or off"
    )
    parser.add_argument(
        "--skills", nargs="+", help="only these: the others may be added to the same file by another call"
    )
    parser.add_argument("--device", help="as in `ninfer serve`")
    parser.add_argument("--seconds", type=float, default=math.inf, help="ask no more after so long in one mode")
    parser.add_argument("--out", type=Path, help="the score file to write or to add to")
    arguments = parser.parse_args()
    if arguments.newcomers and not {"xhigh", "off"} >= set(arguments.modes):
        parser.error("newcomers say nothing of effort: --modes xhigh off")
    return arguments


def main() -> None:
    arguments = parse()
    prepared = prepare(options_of(arguments.artifact, arguments.device), PluginRegistry.discover())
    for mode in arguments.modes:
        questions = in_turn(questions_of(mode, arguments), arguments.skills)
        tally = Tally(facts(prepared), mode, questions, arguments.out)
        began = time.monotonic()
        asyncio.run(answer_all(prepared, [question.body for question in questions], tally.add, arguments.seconds))
        tally.write()
        print(f"{mode}, {tally.asked.total()} answers in {time.monotonic() - began:.0f} s", *tally.lines(), sep="\n")


if __name__ == "__main__":
    main()
