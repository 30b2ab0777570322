"""`DeviceProgram.control`: tokens put behind an answer are as if the prompt had ended with them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import pytest
import torch

from ninfer_core.program.contract import RowRound, RowSetup, Sampling
from ninfer_core.program.runner import DeviceProgram

GREEDY = Sampling(temperature=0.0, top_p=1.0, top_k=20, min_p=0.0, presence_penalty=0.0, frequency_penalty=0.0, seed=0)
HOT = msgspec.structs.replace(GREEDY, temperature=2.0, seed=77)
SAMPLINGS = [GREEDY, HOT]
PROMPT = random.Random(5).choices(range(256), k=70)
CONTROL = list(b"\n\n Time is up.\n</think>\n\n")


@pytest.fixture(scope="module", params=[False, True], ids=["dense", "experts"])
def shared(request: pytest.FixtureRequest, build: Callable[..., Any]) -> DeviceProgram:
    built: DeviceProgram = build(experts=request.param).program
    return built


@pytest.fixture
def program(shared: DeviceProgram) -> Iterator[DeviceProgram]:
    yield shared
    assert shared.open_rows == 0


def start(program: DeviceProgram, tokens: Sequence[int], sampling: Sampling) -> tuple[int, int]:
    row = program.open_row(RowSetup(len(tokens), 512, sampling))
    assert row is not None
    candidate = None
    for begin in range(0, len(tokens), 128):
        candidate = program.prefill(row, tokens[begin : begin + 128], begin + 128 >= len(tokens))
    assert candidate is not None
    return row, candidate


def decode(program: DeviceProgram, row: int, count: int) -> list[int]:
    return [program.decode([RowRound(row=row, accepted=1)])[0][0] for _ in range(count)]


def controlled(
    program: DeviceProgram, sampling: Sampling, before: int, control: Sequence[int], after: int
) -> tuple[list[int], list[int]]:
    """Tokens of an answer before and after `control` is put into it."""
    row, candidate = start(program, PROMPT, sampling)
    first = [candidate, *decode(program, row, before - 1)]
    program.control(RowRound(row=row, accepted=1), control)
    second = decode(program, row, after)
    program.close_row(row)
    return first, second


@pytest.mark.contract("TMPL-12")
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=["greedy", "sampled"])
@pytest.mark.parametrize("before", [1, 2, 9])
def test_as_if_the_prompt_had_ended_with_them(program: DeviceProgram, sampling: Sampling, before: int) -> None:
    first, second = controlled(program, sampling, before, CONTROL, 20)
    row, candidate = start(program, [*PROMPT, *first, *CONTROL], sampling)
    assert [candidate, *decode(program, row, 19)] == second
    program.close_row(row)
    row, candidate = start(program, PROMPT, sampling)
    assert [candidate, *decode(program, row, before - 1)] == first
    program.close_row(row)


@pytest.mark.parametrize("length", [1, 2, 127, 128, 129, 250])
def test_of_any_length(program: DeviceProgram, length: int) -> None:
    control = random.Random(length).choices(range(256), k=length)
    first, second = controlled(program, GREEDY, 3, control, 5)
    row, candidate = start(program, [*PROMPT, *first, *control], GREEDY)
    assert [candidate, *decode(program, row, 4)] == second
    program.close_row(row)


def test_others_do_not_notice(program: DeviceProgram) -> None:
    row, candidate = start(program, PROMPT[:40], HOT)
    alone = [candidate, *decode(program, row, 12)]
    program.close_row(row)
    _, wanted = controlled(program, HOT, 4, CONTROL, 9)
    row, candidate = start(program, PROMPT[:40], HOT)
    other, _ = start(program, PROMPT, HOT)
    together, closed = [candidate], []
    for turn in range(12):
        if turn == 3:
            program.control(RowRound(row=other, accepted=1), CONTROL)
        rows = [RowRound(row=row, accepted=1), RowRound(row=other, accepted=1)]
        mine, others = program.decode(rows)
        together += mine
        closed += others if turn >= 3 else ()
    program.close_row(row)
    program.close_row(other)
    assert together == alone
    assert closed == wanted


def test_penalties_know_what_the_model_chose_and_nothing_else(program: DeviceProgram) -> None:
    penalised = msgspec.structs.replace(HOT, presence_penalty=1.5, frequency_penalty=0.5)
    row, candidate = start(program, PROMPT, penalised)
    chosen = [candidate, *decode(program, row, 4)]
    program.control(RowRound(row=row, accepted=1), CONTROL)
    chosen += decode(program, row, 6)
    counts = program._pools.rows.penalty_counts[row]
    program.close_row(row)
    wanted = torch.bincount(torch.tensor(chosen[:-1]), minlength=counts.numel())  # the last one has not been taken yet
    assert counts.tolist() == wanted.tolist()


def test_a_reservation_is_not_outgrown(program: DeviceProgram) -> None:
    row = program.open_row(RowSetup(3, 13, GREEDY))
    assert row is not None
    program.prefill(row, [1, 2, 3], last=True)
    with pytest.raises(AssertionError, match="tokens in the row"):
        program.control(RowRound(row=row, accepted=1), range(11))
    program.close_row(row)


def test_an_n_that_was_not_offered_is_our_mistake(program: DeviceProgram) -> None:
    row, _ = start(program, PROMPT, GREEDY)
    with pytest.raises(AssertionError, match="N = 2 of 1"):
        program.control(RowRound(row=row, accepted=2), CONTROL)
    program.close_row(row)
