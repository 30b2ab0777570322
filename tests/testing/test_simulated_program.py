"""The simulated program refuses whatever its contract does not allow, at whatever moment."""

from __future__ import annotations

import copy
import random
from collections import deque
from collections.abc import Callable

import pytest

from ninfer_core.program.contract import RowRound, RowSetup, Unit
from ninfer_core.testing.histories import sampling
from ninfer_core.testing.simulated_frontend import answer_token
from ninfer_core.testing.simulated_plan import simulated_plan
from ninfer_core.testing.simulated_program import SimulatedProgram, simulated_program

PROMPT = 10


def opened(program: SimulatedProgram, rows: int, output: int = 500) -> dict[int, int]:
    """Rows behind their prompts, a round behind each, and how many candidates of it are there to be taken."""
    accepted: dict[int, int] = {}
    for seed in range(rows):
        row = program.open_row(RowSetup(PROMPT, PROMPT + output, sampling(seed)))
        assert row is not None
        program.prefill(row, [65] * PROMPT, True)
        accepted[row] = 1
        found = program.decode([RowRound(*each) for each in accepted.items()])
        accepted = {row: len(candidates) for row, candidates in zip(accepted, found, strict=True)}
    return accepted


def rounds(rows: list[int], accepted: int | None) -> list[RowRound]:
    return [RowRound(row, accepted) for row in rows]


def wrong_uses(rows: list[int], uncollected: int) -> dict[str, Callable[[SimulatedProgram], object]]:
    """What must not be done with rows that have so many uncollected rounds."""
    known = {
        "unseen of what is seen": lambda program: program.launch_decode(rounds(rows, None)),
        "more than offered": lambda program: program.launch_decode(rounds(rows, 5)),
        "nothing": lambda program: program.launch_decode(rounds(rows, 0)),
    }
    flying = {
        "a number of what nobody has seen": lambda program: program.launch_decode(rounds(rows, 1)),
        "forced tokens behind what nobody has seen": lambda program: program.launch_control(RowRound(rows[0], 1), [66]),
        "forced tokens behind all of it": lambda program: program.launch_control(RowRound(rows[0], None), [66]),
    }
    twice = {"a third round": lambda program: program.launch_decode(rounds(rows, None))}
    always = {
        "a row twice": lambda program: program.launch_decode(rounds([*rows, rows[0]], None)),
        "a row that is none": lambda program: program.launch_decode(rounds([99], 1)),
        "a prompt behind the prompt": lambda program: program.launch_prefill(rows[0], [65], True),
    }
    return {**always, **(flying if uncollected else known), **(twice if uncollected == 2 else {})}


@pytest.mark.parametrize("draft_tokens", [0, 3])
def test_wrong_use_is_refused_at_any_moment(draft_tokens: int) -> None:
    draw = random.Random(draft_tokens)
    program = simulated_program(simulated_plan(max_context=1024, kv_pages=64, draft_tokens=draft_tokens), seed=1)
    begun = opened(program, 3)
    rows, accepted = list(begun), list(begun.values())
    flight: deque[Unit] = deque()
    for _ in range(40):
        for name, misuse in wrong_uses(rows, len(flight)).items():
            with pytest.raises((AssertionError, KeyError)):
                misuse(copy.deepcopy(program))
                pytest.fail(f"{name} with {len(flight)} rounds in flight")
        if flight and (len(flight) == 2 or draw.random() < 0.5):
            accepted = [len(candidates) for candidates in flight.popleft()()]
        else:
            taken = [None] * len(rows) if flight else accepted
            flight.append(program.launch_decode([RowRound(*each) for each in zip(rows, taken, strict=True)]))


def test_who_asks_its_host_goes_ahead_of_nothing() -> None:
    program = simulated_program(simulated_plan(draft_tokens=3))
    program.goes_ahead = False
    (row,) = begun = opened(program, 1, 40)
    program.launch_decode(rounds([row], begun[row]))
    with pytest.raises(AssertionError, match="a round has ready rows only"):
        program.launch_decode(rounds([row], None))


def test_a_round_ahead_takes_all_that_the_one_before_it_offers() -> None:
    """So that a row of which less was taken goes on with other tokens than it should."""
    program = simulated_program(simulated_plan(max_context=1024, kv_pages=64, draft_tokens=15), seed=3)
    (row,) = begun = opened(program, 1)
    units = [program.launch_decode(rounds([row], each)) for each in (begun[row], None)]
    offered, behind = (unit()[0] for unit in units)
    first = 1 + begun[row]
    tokens = [answer_token(0, place) for place in range(first, first + len(offered) + len(behind))]
    assert len(offered) > 1 and [*offered, *behind] == tokens
