"""Prompts, and what a program answers them, all in one batch."""

from __future__ import annotations

from collections.abc import Sequence

from ninfer_core.program.contract import RowRound, RowSetup, Sampling
from ninfer_core.program.runner import DeviceProgram

PROMPTS = [[(7 * place + 13 * length) % 250 for place in range(length)] for length in (5, 64, 65, 200, 1, 30, 128, 90)]


def sampling(seed: int) -> Sampling:
    """Greedy for the first."""
    return Sampling(
        temperature=0.0 if seed == 0 else 1.0,
        top_p=0.95,
        top_k=20,
        min_p=0.0,
        presence_penalty=0.5,
        frequency_penalty=0.0,
        seed=seed,
    )


def generate(program: DeviceProgram, prompts: Sequence[Sequence[int]], first_seed: int, count: int) -> list[list[int]]:
    """`count` tokens for each."""
    rows, made = [], []
    for offset, tokens in enumerate(prompts):
        row = program.open_row(RowSetup(len(tokens), len(tokens) + count, sampling(first_seed + offset)))
        assert row is not None
        candidate = program.prefill(row, tokens, last=True)
        assert candidate is not None
        rows.append(row)
        made.append([candidate])
    for _ in range(count - 1):
        for tokens_of_row, candidates in zip(
            made, program.decode([RowRound(row=row, accepted=1) for row in rows]), strict=True
        ):
            tokens_of_row.extend(candidates)
    for row in rows:
        program.close_row(row)
    return made
