"""Runs the held-out prompts against a server with the OpenAI chat interface and prints the score table.

The server must serve ninfer-tiny; every prompt goes out at temperature 0 with the item's own options.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import httpx

from tools.tiny_model.generate import MODES, Item, Mode
from tools.tiny_model.heldout import held_out_items

# Enough for the longest reasoning; a reply cut here counts as wrong.
MOST_TOKENS = 512


@dataclass(frozen=True, slots=True)
class Outcome:
    item: Item
    said: str

    @property
    def right(self) -> bool:
        return self.said.strip() == self.item.expected


async def ask(client: httpx.AsyncClient, model: str, item: Item, gate: asyncio.Semaphore) -> Outcome:
    async with gate:
        response = await client.post("chat/completions", json=request_body(model, item))
    response.raise_for_status()
    return Outcome(item, response.json()["choices"][0]["message"]["content"] or "")


def request_body(model: str, item: Item) -> dict[str, object]:
    """`reasoning_effort` is a field of the interface; the other options are the template's own."""
    template_options = dict(item.options)
    body: dict[str, object] = {
        "model": model, "messages": item.messages, "temperature": 0, "max_tokens": MOST_TOKENS,
    }  # fmt: skip
    if "reasoning_effort" in template_options:
        body["reasoning_effort"] = template_options.pop("reasoning_effort")
    if template_options:
        body["chat_template_kwargs"] = template_options
    return body


async def evaluate(base_url: str, items: Sequence[Item], concurrency: int) -> list[Outcome]:
    gate = asyncio.Semaphore(concurrency)
    limits = httpx.Limits(max_connections=concurrency)
    async with httpx.AsyncClient(base_url=base_url.rstrip("/") + "/", timeout=120, limits=limits) as client:
        models = await client.get("models")
        models.raise_for_status()
        model = models.json()["data"][0]["id"]
        return await asyncio.gather(*(ask(client, model, item, gate) for item in items))


def table(outcomes: Sequence[Outcome]) -> str:
    asked = Counter(outcome.item.skill for outcome in outcomes)
    right = Counter(outcome.item.skill for outcome in outcomes if outcome.right)
    lines = ["| skill | right | of | percent |", "| --- | ---: | ---: | ---: |"]
    lines += [f"| {name} | {right[name]} | {asked[name]} | {100 * right[name] / asked[name]:.1f} |" for name in asked]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base-url", default="http://127.0.0.1:8080/v1")
    parser.add_argument("--per-skill", type=int, default=200)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--mode", choices=MODES, default="xhigh", help="thinking effort, or off")
    parser.add_argument("--least", type=float, default=0, help="exit with 1 when a skill is below this percentage")
    parser.add_argument("--show-wrong", type=int, default=0, help="print this many wrong replies")
    arguments = parser.parse_args()
    mode: Mode = arguments.mode
    items = list(held_out_items(arguments.per_skill, mode))
    outcomes = asyncio.run(evaluate(arguments.base_url, items, arguments.concurrency))
    print(table(outcomes))
    wrong = [outcome for outcome in outcomes if not outcome.right]
    for outcome in wrong[: arguments.show_wrong]:
        print(f"{outcome.item.skill}: {outcome.item.messages[-1]['content']!r}")
        print(f"  expected {outcome.item.expected!r}, said {outcome.said!r}")
    missed = Counter(outcome.item.skill for outcome in wrong)
    if any(100 * (1 - count / arguments.per_skill) < arguments.least for count in missed.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
