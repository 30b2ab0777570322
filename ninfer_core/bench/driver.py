"""Drives a program by hand, with as many units in flight as the engine has."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from ninfer_core.api.plan import Capacities
from ninfer_core.bench.subject import Subject
from ninfer_core.engine.draft_counts import DraftCounts
from ninfer_core.plan.memory import pages_for
from ninfer_core.program.contract import MOST_IN_FLIGHT, RowRound, RowSetup, Sampling, Unit

GREEDY = Sampling(temperature=0.0, top_p=1.0, top_k=1, min_p=0.0, presence_penalty=0.0, frequency_penalty=0.0, seed=0)

CONTEXT_PROMPT_TOKENS = 128
"""What is really prefilled of a context: the rest of a longer one is random keys and values."""


class Rounds(NamedTuple):
    """Of each round the seconds from the result before to its own, the tokens that each of its rows has gained, and the
    drafts that were checked for them, none where there is no drafter."""

    seconds: list[float]
    tokens: list[Sequence[int]]
    drafted: list[Sequence[int]]

    def counts(self, first: int) -> DraftCounts:
        """What became of drafts from round `first` on. All candidates are taken."""
        counts = DraftCounts()
        for tokens, drafted in zip(self.tokens[first:], self.drafted[first:], strict=True):
            for taken, drafts in zip(tokens, drafted, strict=False):
                counts.add(drafted=drafts, offered=taken, taken=taken)
        return counts


def fits(capacities: Capacities, rows: int, tokens: int) -> bool:
    """Whether there is room for that many rows of that length."""
    pages = rows * pages_for(tokens)
    return rows <= capacities.max_concurrency and tokens <= capacities.max_context and pages <= capacities.kv_pages


class Driver:
    """Rows of one program. Prompts are random tokens, the same for the same number. `columns` are those of a row in a
    round, the most candidates that it can give."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._program = subject.program
        self.columns = 1 + subject.plan.capacities.draft_tokens

    def prompt(self, number: int, tokens: int) -> list[int]:
        """Prompt of that number."""
        generator, domain = random.Random(f"{number} of {tokens}"), self._subject.plan.token_domain
        return [generator.randrange(domain) for _ in range(tokens)]

    def fits(self, rows: int, tokens: int) -> bool:
        """Whether the plan has room for that many rows of that length."""
        return fits(self._subject.plan.capacities, rows, tokens)

    def open(self, context_tokens: int, prompt_tokens: int, output_tokens: int, seed: int) -> int:
        """A row with its reservation, over `context_tokens` of random keys and values."""
        known = context_tokens + prompt_tokens
        row = self._program.open_row(RowSetup(known, known + output_tokens, GREEDY))
        assert row is not None, "cases that do not fit are left out"
        if context_tokens:
            context = self._subject.context
            self._program.assume_context(
                row, context_tokens, lambda planes, pages: context.fill(planes, pages, seed=seed)
            )
        return row

    def prefill(self, row: int, prompt: Sequence[int], chunk_tokens: int) -> int:
        """All of the prompt; -> the first candidate."""
        flight: deque[Unit] = deque()
        candidates: tuple[int, ...] = ()
        for first in range(0, len(prompt), chunk_tokens):
            if len(flight) == MOST_IN_FLIGHT:
                flight.popleft()()
            part = prompt[first : first + chunk_tokens]
            flight.append(self._program.launch_prefill(row, part, last=first + chunk_tokens >= len(prompt)))
        while flight:
            (candidates,) = flight.popleft()()
        return candidates[0]

    def standing(self, rows: int, context_tokens: int, output_tokens: int) -> list[int]:
        """New rows that stand behind `context_tokens` tokens each, with a candidate."""
        prompt_tokens = min(CONTEXT_PROMPT_TOKENS, context_tokens)
        opened = []
        for number in range(rows):
            row = self.open(context_tokens - prompt_tokens, prompt_tokens, output_tokens, seed=number)
            self.prefill(row, self.prompt(number, prompt_tokens), prompt_tokens)
            opened.append(row)
        return opened

    def round(self, rows: Sequence[int]) -> list[int]:
        """One round behind one of which one token was taken; -> a token of each row."""
        return [candidates[0] for candidates in self._launch(rows, [1] * len(rows))()]

    def rounds(self, rows: Sequence[int], count: int) -> Rounds:
        """`count` rounds, of which all candidates are taken. Where the program goes ahead, the next round is launched
        before the result of the one that runs is there, as the engine does."""
        most = MOST_IN_FLIGHT if self._program.goes_ahead else 1
        flight: deque[Unit] = deque()
        timed = Rounds([], [], [])
        accepted = [1] * len(rows)
        launched, begin = 0, time.perf_counter()
        while len(timed.seconds) < count:
            while launched < count and len(flight) < most:
                flight.append(self._launch(rows, [None] * len(rows) if flight else accepted))
                launched += 1
            unit = flight.popleft()
            accepted = [len(each) for each in unit()]
            end = time.perf_counter()
            timed.seconds.append(end - begin)
            timed.tokens.append(accepted)
            timed.drafted.append(unit.drafted())
            begin = end
        return timed

    def _launch(self, rows: Sequence[int], accepted: Sequence[int | None]) -> Unit:
        return self._program.launch_decode(
            [RowRound(row=row, accepted=taken) for row, taken in zip(rows, accepted, strict=True)]
        )

    def close(self, rows: Sequence[int]) -> None:
        for row in rows:
            self._program.close_row(row)
