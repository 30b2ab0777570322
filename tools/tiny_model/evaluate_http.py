"""Runs the held-out prompts against a server with the OpenAI chat interface and prints the score table.

The server must serve ninfer-tiny; every prompt goes out at temperature 0 with the item's own options.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import Sequence

import httpx

from tools.tiny_model.episode import Call
from tools.tiny_model.generate import MODES, Item, Mode
from tools.tiny_model.heldout import held_out_items
from tools.tiny_model.outcomes import Outcome, request_body, table


async def ask(client: httpx.AsyncClient, model: str, item: Item, gate: asyncio.Semaphore) -> Outcome:
    async with gate:
        response = await client.post("chat/completions", json=request_body(model, item))
    response.raise_for_status()
    message = response.json()["choices"][0]["message"]
    made = (call["function"] for call in message.get("tool_calls") or [])
    called = tuple(Call(each["name"], tuple(json.loads(each["arguments"]).items())) for each in made)
    return Outcome(item, message["content"] or "", called)


async def evaluate(base_url: str, items: Sequence[Item], concurrency: int) -> list[Outcome]:
    gate = asyncio.Semaphore(concurrency)
    limits = httpx.Limits(max_connections=concurrency)
    async with httpx.AsyncClient(base_url=base_url.rstrip("/") + "/", timeout=600, limits=limits) as client:
        models = await client.get("models")
        models.raise_for_status()
        model = models.json()["data"][0]["id"]
        return await asyncio.gather(*(ask(client, model, item, gate) for item in items))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base-url", default="http://127.0.0.1:8080/v1")
    parser.add_argument("--per-skill", type=int, default=200)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--mode", choices=MODES, default="xhigh", help="thinking effort, or off")
    parser.add_argument("--skills", nargs="+", help="only these")
    parser.add_argument("--long", action="store_true", help="the dialogues of up to 8 k tokens instead")
    parser.add_argument("--least", type=float, default=0, help="exit with 1 when a skill is below this percentage")
    parser.add_argument("--show-wrong", type=int, default=0, help="print this many wrong replies")
    arguments = parser.parse_args()
    mode: Mode = arguments.mode
    items = list(held_out_items(arguments.per_skill, mode, long=arguments.long))
    if arguments.skills:
        items = [item for item in items if item.skill in arguments.skills]
    outcomes = asyncio.run(evaluate(arguments.base_url, items, arguments.concurrency))
    print(table(outcomes))
    wrong = [outcome for outcome in outcomes if not outcome.right]
    for outcome in wrong[: arguments.show_wrong]:
        print(f"{outcome.item.skill}: {str(outcome.item.messages[-1]['content'])[-300:]!r}")
        print(f"  expected {outcome.item.expected!r}, said {outcome.said!r}, called {outcome.called}")
    missed = Counter(outcome.item.skill for outcome in wrong)
    if any(100 * (1 - count / arguments.per_skill) < arguments.least for count in missed.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
