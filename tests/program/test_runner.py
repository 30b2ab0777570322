"""The device program on the tiny random model: rounds, folds, sampling, isolation of rows."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import pytest

from ninfer_core.program.contract import RowRound, RowSetup, Sampling
from ninfer_core.program.runner import DeviceProgram

GREEDY = Sampling(temperature=0.0, top_p=1.0, top_k=20, min_p=0.0, presence_penalty=0.0, frequency_penalty=0.0, seed=0)


def sampled(seed: int, **changes: Any) -> Sampling:
    return msgspec.structs.replace(GREEDY, **{"temperature": 1.0, "seed": seed, **changes})


def prompt(length: int, seed: int = 0) -> list[int]:
    draw = random.Random(seed)
    return [draw.randrange(256) for _ in range(length)]


def start(
    program: DeviceProgram, tokens: Sequence[int], sampling: Sampling, output: int = 64, chunk: int = 128
) -> tuple[int, int]:
    row = program.open_row(RowSetup(len(tokens), len(tokens) + output, sampling))
    assert row is not None
    candidate = None
    for begin in range(0, len(tokens), chunk):
        candidate = program.prefill(row, tokens[begin : begin + chunk], begin + chunk >= len(tokens))
    assert candidate is not None
    return row, candidate


def generate(
    program: DeviceProgram, tokens: Sequence[int], sampling: Sampling, count: int, chunk: int = 128
) -> list[int]:
    row, candidate = start(program, tokens, sampling, count, chunk)
    made = [candidate]
    while len(made) < count:
        made.extend(program.decode([RowRound(row=row, accepted=1)])[0])
    program.close_row(row)
    return made


@pytest.fixture(scope="module", params=[False, True], ids=["dense", "experts"])
def shared(request: pytest.FixtureRequest, build: Callable[..., Any]) -> DeviceProgram:
    built: DeviceProgram = build(experts=request.param).program
    return built


@pytest.fixture
def program(shared: DeviceProgram) -> Iterator[DeviceProgram]:
    """One program for all tests here; whatever one of them leaves open is closed."""
    yield shared
    for row in range(shared.slots.slots):
        with contextlib.suppress(KeyError):
            shared.close_row(row)


def test_phases_are_reported_in_order(build: Callable[..., Any]) -> None:
    built = build()
    assert built.phases == ["weights", "pools", "warm-up"]
    assert built.program.open_rows == 0
    assert built.program.pages.free_pages == built.plan.capacities.kv_pages


SAMPLINGS = [
    GREEDY,
    sampled(1),
    sampled(2**64 - 1, top_p=0.8, min_p=0.02),
    sampled(5, top_k=3, presence_penalty=1.5, frequency_penalty=0.5),
    sampled(5),
    sampled(6, temperature=0.3),
    GREEDY,
    sampled(8, frequency_penalty=2.0),
]


def test_a_batch_of_eight_equals_one_at_a_time(program: DeviceProgram) -> None:
    prompts = [prompt(length, seed) for seed, length in enumerate([1, 5, 63, 64, 65, 130, 7, 200])]
    alone = [generate(program, tokens, each, 40) for tokens, each in zip(prompts, SAMPLINGS, strict=True)]
    assert len({tuple(tokens) for tokens in alone}) == 8
    started = [start(program, tokens, each) for tokens, each in zip(prompts, SAMPLINGS, strict=True)]
    together = [[candidate] for _, candidate in started]
    for _ in range(39):
        outcome = program.decode([RowRound(row=row, accepted=1) for row, _ in started])
        for made, candidates in zip(together, outcome, strict=True):
            made.extend(candidates)
    for row, _ in started:
        program.close_row(row)
    assert together == alone


def test_rows_that_come_and_go_do_not_change_the_others(program: DeviceProgram) -> None:
    tokens, each = prompt(70, 3), sampled(11)
    alone = generate(program, tokens, each, 40)
    row, candidate = start(program, tokens, each)
    made, others = [candidate], []
    for step in range(39):
        if step % 5 == 2:
            others.append(start(program, prompt(20 + step, step), sampled(step))[0])
        if step % 7 == 6:
            program.close_row(others.pop(0))
        rows = [*others[:1], row, *others[1:]]
        outcome = program.decode([RowRound(row=each_row, accepted=1) for each_row in rows])
        made.extend(outcome[rows.index(row)])
    for each_row in [*others, row]:
        program.close_row(each_row)
    assert made == alone


@pytest.mark.parametrize("chunk", [128, 64, 37])
def test_a_prompt_in_chunks_equals_one_shot(program: DeviceProgram, chunk: int) -> None:
    tokens = prompt(300, 9)
    assert generate(program, tokens, GREEDY, 30, chunk) == generate(program, tokens, GREEDY, 30, 512)


def test_decoding_a_token_equals_having_it_in_the_prompt(program: DeviceProgram) -> None:
    tokens = prompt(90, 4)
    made = generate(program, tokens, GREEDY, 30)
    for cut in (1, 10, 29):
        assert generate(program, [*tokens, *made[:cut]], GREEDY, 30 - cut) == made[cut:]


def test_a_draw_belongs_to_its_position_not_to_its_turn(program: DeviceProgram) -> None:
    tokens, each = prompt(30, 8), sampled(21, temperature=3.0)
    made = generate(program, tokens, each, 30)
    for cut in (1, 7, 29):
        assert generate(program, [*tokens, *made[:cut]], each, 30 - cut) == made[cut:]


def test_a_slot_forgets_its_last_sequence(program: DeviceProgram) -> None:
    tokens, each = prompt(40, 5), sampled(3, presence_penalty=2.0)
    fresh = generate(program, tokens, each, 30)
    row, _ = start(program, prompt(200, 6), sampled(4, presence_penalty=2.0))
    program.decode([RowRound(row=row, accepted=1)])
    program.close_row(row)
    assert generate(program, tokens, each, 30) == fresh


def test_only_tokens_of_the_domain_are_drawn(program: DeviceProgram) -> None:
    hot = sampled(1, temperature=100.0)
    assert max(max(generate(program, prompt(3, seed), hot, 40)) for seed in range(6)) < 289


def test_a_frequency_penalty_is_counted_over_what_was_taken(program: DeviceProgram) -> None:
    without = generate(program, prompt(10), sampled(1, temperature=0.01), 60)
    penalty = sampled(1, temperature=0.01, frequency_penalty=50.0)
    assert len(set(without)) < 60
    assert len(set(generate(program, prompt(10), penalty, 60))) == 60


def test_rows_and_pages_run_out_without_taking_anything(build: Callable[..., Any]) -> None:
    program = build(max_concurrency=2, kv_capacity=512).program
    first = program.open_row(RowSetup(10, 300, GREEDY))
    assert first is not None
    assert program.open_row(RowSetup(10, 300, GREEDY)) is None
    assert (program.slots.free_slots, program.pages.free_pages) == (1, 3)
    second = program.open_row(RowSetup(10, 192, GREEDY))
    assert second is not None
    assert program.open_row(RowSetup(1, 1, GREEDY)) is None
    program.close_row(first)
    program.close_row(second)
    assert (program.slots.free_slots, program.pages.free_pages) == (2, 8)


def test_an_n_that_was_not_offered_is_our_mistake(program: DeviceProgram) -> None:
    row, _ = start(program, [1, 2, 3], GREEDY)
    with pytest.raises(AssertionError, match="N = 2 of 1"):
        program.decode([RowRound(row=row, accepted=2)])
    program.close_row(row)
