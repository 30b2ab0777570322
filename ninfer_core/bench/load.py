"""Load over HTTP: streamed Chat Completions from some clients at a time, each on a connection of its own."""

from __future__ import annotations

import http.client
import itertools
import json
import random
import ssl
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from ninfer_core.api.errors import StartFailed
from ninfer_core.bench.records import Check, LoadFigure

WORDS = ("river", "letters", "north", "while", "seven", "clocks", "count", "blue", "winters", "under", "a", "stone")
DISTINCT_PROMPTS = 8
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
NO_CHUNK = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""What reading somebody else's JSON ends in where it is none, or has another form than the API's."""


@dataclass(frozen=True, slots=True)
class Load:
    """`requests` for each number of clients. Prompts are words at random, of which there are DISTINCT_PROMPTS, and
    answers are greedy: the same prompt must give the same answer in any company. `seconds` bounds everything: no
    request is started after them, and what runs then has failed."""

    concurrency: tuple[int, ...]
    requests: int
    prompt_words: int
    output_tokens: int
    key: str | None = None
    seconds: float = 600.0


@dataclass(slots=True)
class Answer:
    """`events` are the seconds, from the request on, at which pieces of text came."""

    prompt: int
    text: str = ""
    events: list[float] = field(default_factory=list)
    tokens: int = 0
    error: str | None = None


class Client:
    """Of one server. Raises StartFailed when it cannot be asked for its models."""

    def __init__(self, url: str, load: Load) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise StartFailed(f"'{url}' is no URL of a server, such as http://127.0.0.1:8080")
        self._secure, self._host = parts.scheme == "https", parts.hostname
        self._port = parts.port or (443 if self._secure else 80)
        self._path = parts.path.rstrip("/")
        self._load = load
        self._headers = {"content-type": "application/json"}
        if load.key is not None:
            self._headers["authorization"] = f"Bearer {load.key}"
        self.model = self._model()

    def ask(self, number: int, deadline: float) -> Answer:
        """One request of prompt `number`, read to its end or to the deadline."""
        answer = Answer(number)
        begin = time.monotonic()
        try:
            with closing(self._connect(deadline - begin)) as connection:
                connection.request("POST", f"{self._path}/v1/chat/completions", self._body(number), self._headers)
                response = connection.getresponse()
                if response.status != http.client.OK:
                    answer.error = f"status {response.status}"
                else:
                    self._read(response, answer, begin, deadline)
        except (OSError, http.client.HTTPException, *NO_CHUNK) as error:
            answer.error = type(error).__name__
        return answer

    def _read(self, response: http.client.HTTPResponse, answer: Answer, begin: float, deadline: float) -> None:
        for data in _events(response):
            now = time.monotonic()
            if now > deadline:
                answer.error = "out of time"
                return
            if data == "[DONE]":
                break
            chunk: dict[str, Any] = json.loads(data)
            if "error" in chunk:
                answer.error = str(chunk["error"].get("code"))
                return
            answer.tokens = (chunk.get("usage") or {}).get("completion_tokens", answer.tokens)
            for choice in chunk.get("choices", ()):
                text = (choice["delta"].get("reasoning_content") or "") + (choice["delta"].get("content") or "")
                if text:
                    answer.text += text
                    answer.events.append(now - begin)
        if answer.tokens == 0:
            answer.error = "no tokens"

    def _model(self) -> str:
        try:
            with closing(self._connect(self._load.seconds)) as connection:
                connection.request("GET", f"{self._path}/v1/models", headers=self._headers)
                response = connection.getresponse()
                body = response.read()
            if response.status != http.client.OK:
                raise StartFailed(f"the server at {self._host}:{self._port} answers {response.status} for its models")
            return str(json.loads(body)["data"][0]["id"])
        except OSError as error:
            raise StartFailed(
                f"nobody can be reached at {self._host}:{self._port}: {error.strerror or error}; give the URL of a "
                "server that runs, or an artifact, which is then served for the load"
            ) from error
        except (http.client.HTTPException, *NO_CHUNK) as error:
            raise StartFailed(
                f"the server at {self._host}:{self._port} does not tell its models: {error}; it has to be one of the "
                "OpenAI API, and the URL without /v1"
            ) from error

    def _connect(self, seconds: float) -> http.client.HTTPConnection:
        seconds = max(seconds, 0.1)
        if self._secure:
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(self._host, self._port, timeout=seconds, context=context)
        return http.client.HTTPConnection(self._host, self._port, timeout=seconds)

    def _body(self, number: int) -> str:
        chosen = random.Random(number).choices(WORDS, k=self._load.prompt_words)
        return json.dumps(
            {
                "model": self.model,
                "messages": [{"role": "user", "content": " ".join(chosen)}],
                "max_tokens": self._load.output_tokens,
                "temperature": 0,
                "stream": True,
                "stream_options": {"include_usage": True},
            }
        )


def _events(response: http.client.HTTPResponse) -> Iterator[str]:
    """The data of each event of a stream."""
    for line in iter(response.readline, b""):
        if line.startswith(b"data:"):
            yield line[len(b"data:") :].strip().decode()


def run_load(client: Client, load: Load) -> tuple[list[LoadFigure], list[Check]]:
    """Every concurrency in turn, as far as the time goes. A check covers each: no request failed, and no answer
    differed from those before. Raises StartFailed where the time is over before the first request."""
    deadline = time.monotonic() + load.seconds
    texts: dict[int, str] = {}
    figures, checks = [], []
    for clients in load.concurrency:
        begin = time.monotonic()
        answers = _answers(client, load, clients, deadline)
        if not answers:
            break
        seconds = time.monotonic() - begin
        failed = Counter(answer.error for answer in answers if answer.error is not None)
        good = [answer for answer in answers if answer.error is None]
        differing = sum(texts.setdefault(answer.prompt, answer.text) != answer.text for answer in good)
        name = f"{clients} clients"
        checks.append(
            Check(
                name=name,
                passed=not failed and differing == 0,
                values={"failed_error": failed.total(), "differing_error": differing},
                limits={"failed_error": 0, "differing_error": 0},
                remark="a prompt's greedy answer is the same in any company",
            )
        )
        figures.append(_figure(good, clients, dict(failed), seconds, load.requests - len(answers), name))
    if not figures:
        raise StartFailed(f"no request could be started within {load.seconds:g} s; give more --seconds")
    return figures, checks


def _answers(client: Client, load: Load, clients: int, deadline: float) -> list[Answer]:
    numbers, lock = itertools.count(), threading.Lock()

    def work() -> list[Answer]:
        mine: list[Answer] = []
        while True:
            with lock:
                number = next(numbers)
            if number >= load.requests or time.monotonic() >= deadline:
                return mine
            mine.append(client.ask(number % DISTINCT_PROMPTS, deadline))

    with ThreadPoolExecutor(clients, thread_name_prefix="ninfer-load") as pool:
        done = [pool.submit(work) for _ in range(clients)]
        return [answer for each in done for answer in each.result()]


def _figure(
    answers: Sequence[Answer], clients: int, errors: dict[str, int], seconds: float, not_started: int, check: str
) -> LoadFigure:
    gaps = [later - earlier for answer in answers for earlier, later in itertools.pairwise(answer.events)]
    return LoadFigure(
        concurrency=clients,
        requests=len(answers) + sum(errors.values()),
        errors=errors,
        not_started=not_started,
        seconds=seconds,
        output_tokens=sum(answer.tokens for answer in answers),
        first_token_seconds=_percentiles([answer.events[0] for answer in answers if answer.events]),
        between_tokens_seconds=_percentiles(gaps),
        check=check,
    )


def _percentiles(values: Sequence[float]) -> dict[str, float]:
    if len(values) < 2:
        return {name: value for name in PERCENTILES for value in values}
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return {name: cuts[round(100 * share) - 1] for name, share in PERCENTILES.items()}
