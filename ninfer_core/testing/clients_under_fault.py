"""Clients of a server that is about to be hurt: what became of each, and when."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx

from ninfer_core.testing.event_streams import data_payloads
from ninfer_core.testing.server_process import START_SECONDS, ServerProcess, until

CHAT = "/v1/chat/completions"

SLOW_ANSWERS: list[dict[str, Any]] = [
    {"match": "prompt", "content": "x", "prompt_delay_ms": 100},
    {"match": "answer", "reasoning": "hm " * 100, "content": "word " * 3000, "delay_ms": 5},
    {"match": "rounds", "content": "word " * 3000, "delay_ms": 2, "tokens_per_round": 7},
]
"""A script that keeps requests in every state for longer than a fault takes to come."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`end` is `done`, the code of a typed error, or `cut` where the connection just ended."""

    end: str
    monotonic: float


class Crowd:
    """`count` clients, streaming and not, some with long prompts. More of them than the server runs at once wait."""

    def __init__(self, url: str, count: int, seed: int) -> None:
        self._url = url
        self._choose = random.Random(seed)
        self._pool = ThreadPoolExecutor(count)
        self._running: list[Future[Outcome]] = [
            self._pool.submit(self._client, self._request(number)) for number in range(count)
        ]

    def outcomes(self) -> list[Outcome]:
        """Of all clients, in no order. Raises what a client did not expect."""
        outcomes = [each.result() for each in self._running]
        self._pool.shutdown()
        return outcomes

    def _request(self, number: int) -> dict[str, Any]:
        text = ("prompt" + "." * 2000, "answer", "rounds")[number % 3]
        return {
            "messages": [{"role": "user", "content": text}],
            "stream": self._choose.random() < 0.6,
            "max_tokens": 1500,
        }

    def _client(self, body: dict[str, Any]) -> Outcome:
        try:
            with httpx.Client(base_url=self._url, timeout=60) as http:
                end = _end_of(http.post(CHAT, json=body), body["stream"])
        except httpx.TransportError:
            end = "cut"
        return Outcome(end, time.monotonic())


def _end_of(answer: httpx.Response, stream: bool) -> str:
    if not stream or answer.status_code != 200:
        found = answer.json()
    else:
        found = data_payloads(answer.text)[-1]
        if found == "[DONE]":
            return "done"
    return str(found["error"]["code"]) if "error" in found else "done"


def hurt(server: ServerProcess, fault: Callable[[], None], *, count: int, seed: int) -> tuple[float, list[Outcome]]:
    """Let `count` clients begin, then the fault happen, some moment later; -> when it happened, and all outcomes."""
    crowd = Crowd(server.url, count, seed)
    until(lambda: sum(" request_started " in line for line in list(server.log)) >= count - 1, START_SECONDS)
    time.sleep(0.4 * random.Random(seed).random())
    happened = time.monotonic()
    fault()
    return happened, crowd.outcomes()
