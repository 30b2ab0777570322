"""Batches from worker processes, in an order that depends on the seed alone."""

from __future__ import annotations

import multiprocessing
import os
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

SHARD_DIALOGUES = 4096


class BatchStream:
    """Endless batches of packed rows. Start it before the first use of CUDA: the workers are forked."""

    def __init__(self, *, seed: int, workers: int, rows: int, length: int, chunk: int) -> None:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        self.seed, self.rows, self.length, self.chunk = seed, rows, length, chunk
        # Bounds how far the workers run ahead, and with it the memory.
        self.ahead = Semaphore(4 * workers)
        self.stopped = False
        self.pool = multiprocessing.get_context("fork").Pool(workers)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # The pool's own thread may be waiting for a free place, and terminating waits for that thread.
        self.stopped = True
        self.ahead.release()
        self.pool.terminate()

    def __iter__(self) -> Iterator[Rows]:
        parts: list[Rows] = []
        for shard in self.pool.imap(_make_shard, self._jobs()):
            self.ahead.release()
            parts.append(shard)
            merged = Rows(*(np.concatenate([getattr(part, name) for part in parts]) for name in Rows.__slots__))
            full = len(merged.tokens) // self.rows * self.rows
            for start in range(0, full, self.rows):
                yield _slice(merged, start, start + self.rows)
            parts = [_slice(merged, full, len(merged.tokens))]

    def _jobs(self) -> Iterator[tuple[int, int, int]]:
        for shard in count():
            self.ahead.acquire()
            if self.stopped:
                return
            yield self.seed * 1_000_000 + shard, self.length, self.chunk


def _slice(rows: Rows, start: int, stop: int) -> Rows:
    return Rows(rows.tokens[start:stop], rows.labels[start:stop], rows.positions[start:stop])


def _make_shard(job: tuple[int, int, int]) -> Rows:
    seed, length, chunk = job
    tokenizer, template = _tools()
    return encode_shard(seed, SHARD_DIALOGUES, tokenizer, template, length=length, chunk=chunk)


@lru_cache(maxsize=1)
def _tools() -> tuple[Tokenizer, Template]:
    return load(), load_template()
