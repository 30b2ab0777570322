"""Batches from worker processes, in an order that depends on the seed alone."""

from __future__ import annotations

import multiprocessing
import os
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from itertools import count
from threading import Semaphore
from types import TracebackType
from typing import Self

import numpy as np
from jinja2 import Template
from tokenizers import Tokenizer

from tools.tiny_model.encode import Rows, encode_shard
from tools.tiny_model.template import load_template
from tools.tiny_model.tokenizer import load

SHARD_DIALOGUES = 1024
# A long dialogue is as much text as twenty others.
LONG_SHARD_DIALOGUES = 64
# Rows of long dialogues are so many times as long.
LONGER = 8
# A repeated batch comes this many batches after it was new.
REPEAT_AFTER = 150


class BatchStream:
    """Endless batches of packed rows, whoever generates them. Start it before the first use of CUDA: it forks."""

    def __init__(
        self, *, seed: int, workers: int, rows: int, length: int, chunk: int, long_every: int = 0, repeat: bool = False,
        last: bool = False,
    ) -> None:  # fmt: skip
        """Every `long_every`-th shard has long dialogues, in rows eight times as long and an eighth as many.

        `repeat` gives every batch a second time: the generator is slower than the GPU. `last`: with the last shares.
        Without `workers` this process generates, between the steps.
        """
        if long_every and rows % LONGER:
            raise ValueError(f"{rows} rows are no multiple of {LONGER}: a row of long dialogues is as long as {LONGER}")
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        self.seed, self.rows, self.length, self.chunk = seed, rows, length, chunk
        self.long_every, self.repeat, self.last = long_every, repeat, last
        # Bounds how far the workers run ahead, and with it the memory.
        self.ahead = Semaphore(4 * max(1, workers))
        self.stopped = False
        self.pool = multiprocessing.get_context("fork").Pool(workers) if workers else None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The pool's own thread may be waiting for a free place, and terminating waits for that thread.
        self.stopped = True
        self.ahead.release()
        if self.pool:
            self.pool.terminate()

    def __iter__(self) -> Iterator[Rows]:
        before: deque[Rows] = deque()
        for batch in self._new():
            yield batch
            if self.repeat:
                before.append(batch)
                if len(before) > REPEAT_AFTER:
                    yield before.popleft()

    def _new(self) -> Iterator[Rows]:
        rest: dict[int, Rows] = {}
        shards = self.pool.imap(_make_shard, self._jobs()) if self.pool else map(_make_shard, self._jobs())
        for shard in shards:
            self.ahead.release()
            length = shard.tokens.shape[1]
            count = self.rows * self.length // length
            merged = _joined(rest[length], shard) if length in rest else shard
            full = len(merged.tokens) // count * count
            for start in range(0, full, count):
                yield _slice(merged, start, start + count)
            rest[length] = _slice(merged, full, len(merged.tokens))

    def _jobs(self) -> Iterator[tuple[int, int, int, bool, bool]]:
        for shard in count():
            self.ahead.acquire()
            if self.stopped:
                return
            long = bool(self.long_every) and shard % self.long_every == 1
            yield self.seed * 1_000_000 + shard, self.length * (LONGER if long else 1), self.chunk, long, self.last


def _joined(one: Rows, other: Rows) -> Rows:
    return Rows(*(np.concatenate((getattr(one, name), getattr(other, name))) for name in Rows.__slots__))


def _slice(rows: Rows, start: int, stop: int) -> Rows:
    return Rows(rows.tokens[start:stop], rows.labels[start:stop], rows.positions[start:stop])


def _make_shard(job: tuple[int, int, int, bool, bool]) -> Rows:
    seed, length, chunk, long, last = job
    tokenizer, template = _tools()
    dialogues = LONG_SHARD_DIALOGUES if long else SHARD_DIALOGUES
    return encode_shard(seed, dialogues, tokenizer, template, length=length, chunk=chunk, long=long, last=last)


@lru_cache(maxsize=1)
def _tools() -> tuple[Tokenizer, Template]:
    return load(), load_template()
