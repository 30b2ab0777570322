"""Tokens per round of an artifact's drafters through the engine of this process, on the prompts of `draft_measure.py`.

`python -m tools.tiny_model.evaluate_drafts [ARTIFACT] --out drafts.json`. The artifact's drafter is DFlash2; DFlash,
which is within it, is measured by the training code alone. At temperature 1 the engine draws from the 20 likeliest
tokens, the training code from all.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from ninfer_core.api.whole_answer import WholeAnswer
from ninfer_core.plan.prepare import Prepared, prepare
from ninfer_core.plugins import PluginRegistry
from tools.tiny_model.draft_prompts import KINDS, MOST_REPLY, items_of
from tools.tiny_model.evaluate_engine import MODEL, answer_all, facts, options_of
from tools.tiny_model.generate import Item
from tools.tiny_model.noise import mean_and_error
from tools.tiny_model.outcomes import request_body
from tools.tiny_model.scores import read_scores, write_scores

DRAFTS = {"mtp": 3, "dflash2": 7}
TEMPERATURES = {"greedy": 0.0, "T=1": 1.0}


def body(number: int, item: Item, temperature: float) -> dict[str, Any]:
    """Sampled answers have seeds of their own, so that they do not depend on company."""
    law = {"temperature": temperature, "top_p": 1.0, "top_k": 0, "seed": number}
    return request_body(MODEL, item) | law | {"max_tokens": MOST_REPLY}


def rounds(answers: Iterable[WholeAnswer]) -> tuple[list[int], list[int]]:
    """(tokens beyond the first, rounds) of each answer that had any round."""
    told = [
        (answer.finished.usage.output_tokens - 1, answer.finished.speculation.rounds)
        for answer in answers
        if answer.finished.speculation and answer.finished.speculation.rounds
    ]
    return [made for made, _ in told], [used for _, used in told]


def measure(prepared: Prepared, count: int) -> Iterator[tuple[str, tuple[float, float]]]:
    """(kind of text and temperature, tokens per round with their error)"""
    for kind in KINDS:
        items = [item for item, _ in items_of(kind, count)]
        for column, temperature in TEMPERATURES.items():
            bodies = [body(number, item, temperature) for number, item in enumerate(items)]
            answers: dict[int, WholeAnswer] = {}
            asyncio.run(answer_all(prepared, bodies, answers.__setitem__))
            yield f"{kind} {column}", mean_and_error(*rounds(answers.values()))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artifact", nargs="?")
    parser.add_argument("--drafters", nargs="+", choices=DRAFTS, default=list(DRAFTS))
    parser.add_argument("--count", type=int, default=40, help="prompts of each kind")
    parser.add_argument("--device", help="as in `ninfer serve`")
    parser.add_argument("--out", type=Path, help="the score file to write or to add to")
    arguments = parser.parse_args()
    if arguments.count < 2:
        parser.error("one prompt has no error: --count 2 at least")
    return arguments


def main() -> None:
    arguments = parse()
    for name in arguments.drafters:
        before = read_scores(arguments.out).measurements if arguments.out and arguments.out.exists() else ()
        options = options_of(arguments.artifact, arguments.device, spec=name, draft_tokens=DRAFTS[name])
        prepared = prepare(options, PluginRegistry.discover())
        found: dict[str, tuple[float, float]] = {}
        for column, rate in measure(prepared, arguments.count):
            found[column] = rate
            print(name, column, *rate, flush=True)
            if arguments.out:
                rates = {f"{name} k={DRAFTS[name]}": found}
                write_scores(arguments.out, *before, msgspec.structs.replace(facts(prepared), tokens_per_round=rates))


if __name__ == "__main__":
    main()
