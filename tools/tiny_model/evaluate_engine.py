"""The held-out prompts through the engine of this process: the server without its wire, so it runs where no web
framework is installed, on a GPU too.

`python -m tools.tiny_model.evaluate_engine [ARTIFACT] --modes low medium off --out scores.json`
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from ninfer_protocols.openai_chat import ninfer_protocol_lower

from ninfer_core.api.whole_answer import whole_answer
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.prepare import Prepared, prepare
from ninfer_core.plugins import PluginRegistry
from ninfer_core.program.start import start_program
from ninfer_core.serving.inline_link import InlineLink
from ninfer_core.serving.service import EngineService
from ninfer_core.telemetry import create_log
from tools.tiny_model.episode import Call
from tools.tiny_model.generate import MODES, Item
from tools.tiny_model.heldout import held_out_items
from tools.tiny_model.newcomers import Calls
from tools.tiny_model.outcomes import Outcome, request_body, table

ROWS = 8
LONGEST = 8192

Said = tuple[str, Calls]


async def answer_all(
    prepared: Prepared, bodies: Sequence[dict[str, Any]], seconds: float = math.inf
) -> list[Said | None]:
    """(content, calls) for each request body of the OpenAI chat interface, `ROWS` at a time, or None for those whose
    turn does not come within `seconds`."""
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

        async def answer(body: dict[str, Any]) -> Said | None:
            async with gate:
                if time.monotonic() > end:
                    return None
                request = ninfer_protocol_lower(json.dumps(body).encode())
                whole = await whole_answer(await service.start(request, None))
            return whole.content, [(call.name, call.arguments) for call in whole.calls]

        return await asyncio.gather(*(answer(body) for body in bodies))
    finally:
        await link.stop()


def outcome(item: Item, said: Said) -> Outcome:
    content, calls = said
    return Outcome(item, content, tuple(Call(name, tuple(arguments.items())) for name, arguments in calls))


def in_turn(items: Iterable[Item], skills: Sequence[str] | None, skip: int = 0) -> list[Item]:
    """One of each skill, then another of each: whatever is left out in the end is left out of all."""
    by_skill: dict[str, list[Item]] = {}
    for item in items:
        if not skills or item.skill in skills:
            by_skill.setdefault(item.skill, []).append(item)
    return [item for group in list(zip(*by_skill.values(), strict=True))[skip:] for item in group]


def counted(outcomes: Sequence[Outcome]) -> dict[str, tuple[int, int]]:
    """(right, asked) by skill."""
    right = Counter(each.item.skill for each in outcomes if each.right)
    asked = Counter(each.item.skill for each in outcomes)
    return {skill: (right[skill], asked[skill]) for skill in asked}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifact", nargs="?")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=MODES)
    parser.add_argument("--per-skill", type=int, default=200)
    parser.add_argument("--long", action="store_true", help="the dialogues of up to 8 k tokens instead")
    parser.add_argument("--skip", type=int, default=0, help="leave out so many of each skill, asked elsewhere")
    parser.add_argument("--skills", nargs="+", help="only these")
    parser.add_argument("--device", help="as in `ninfer serve`")
    parser.add_argument("--seconds", type=float, default=math.inf, help="ask no more after so long in one mode")
    parser.add_argument("--out", type=Path, help="the counts as JSON: {mode: {skill: [right, asked]}}")
    arguments = parser.parse_args()
    device = int(arguments.device) if (arguments.device or "").isdigit() else arguments.device
    options = ServeOptions(artifact=arguments.artifact, device=device, max_concurrency=ROWS, kv_capacity=ROWS * LONGEST)
    prepared = prepare(options, PluginRegistry.discover())
    counts: dict[str, dict[str, tuple[int, int]]] = {}
    for mode in arguments.modes:
        items = in_turn(
            held_out_items(arguments.per_skill, mode, long=arguments.long), arguments.skills, arguments.skip
        )
        bodies = [request_body("ninfer-tiny", item) for item in items]
        said = asyncio.run(answer_all(prepared, bodies, arguments.seconds))
        outcomes = [outcome(item, each) for item, each in zip(items, said, strict=True) if each is not None]
        counts[mode] = counted(outcomes)
        print(f"{mode}\n{table(outcomes)}", flush=True)
        if arguments.out:
            arguments.out.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
