"""Asks a server the first requests of newcomers and counts the right replies, at temperature 0.

`python -m tools.tiny_model.evaluate_newcomers --base-url http://127.0.0.1:8080/v1`
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence

import httpx

from tools.tiny_model.newcomers import Request, requests


async def ask_all(base_url: str, asked: Sequence[Request], *, thinking: bool, together: int = 8) -> list[str | None]:
    """For each request None when the reply is right, else the reply."""
    gate = asyncio.Semaphore(together)
    async with httpx.AsyncClient(base_url=base_url.rstrip("/") + "/", timeout=600) as client:
        model = (await client.get("models")).raise_for_status().json()["data"][0]["id"]

        async def ask(request: Request) -> str | None:
            async with gate:
                response = await client.post("chat/completions", json=request.body(model, thinking=thinking))
            message = response.raise_for_status().json()["choices"][0]["message"]
            functions = [call["function"] for call in message.get("tool_calls") or []]
            called = [(each["name"], json.loads(each["arguments"])) for each in functions]
            said = message["content"] or ""
            return None if request.right(said, called) else str(called or said)

        return await asyncio.gather(*(ask(request) for request in asked))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base-url", default="http://127.0.0.1:8080/v1")
    parser.add_argument("--no-thinking", action="store_true")
    arguments = parser.parse_args()
    replies = asyncio.run(ask_all(arguments.base_url, requests(), thinking=not arguments.no_thinking))
    for request, reply in zip(requests(), replies, strict=True):
        if reply is not None:
            print(f"{request.ask!r} -> {reply!r}")
    print(f"{replies.count(None)} of {len(replies)} right")


if __name__ == "__main__":
    main()
