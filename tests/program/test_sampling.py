"""Settings of the sampler over many rounds of the device program."""

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
COUNT = 24


@pytest.fixture(scope="module")
def program(build: Callable[..., Any]) -> Iterator[DeviceProgram]:
    built: DeviceProgram = build().program
    yield built
    assert built.open_rows == 0


def first(program: DeviceProgram, tokens: Sequence[int], sampling: Sampling, chosen: Sequence[int] = ()) -> int:
    """The token that follows the prompt, were `chosen` what the request has selected so far. Leaves the row open."""
    row = program.open_row(RowSetup(len(tokens), len(tokens) + COUNT, sampling))
    assert row is not None
    with torch.inference_mode():
        counts = program._pools.rows.penalty_counts[row]
        counts.copy_(torch.bincount(torch.tensor(chosen, dtype=torch.int64), minlength=counts.numel()))
    candidate = program.prefill(row, tokens, last=True)
    assert candidate is not None
    return candidate


def generate(program: DeviceProgram, tokens: Sequence[int], sampling: Sampling) -> list[int]:
    made = [first(program, tokens, sampling)]
    while len(made) < COUNT:
        made += program.decode([RowRound(row=0, accepted=1)])[0]
    program.close_row(0)
    return made


def random_settings(seed: int) -> tuple[list[int], Sampling]:
    draw = random.Random(seed)
    return draw.choices(range(256), k=draw.choice((1, 20, 64))), Sampling(
        temperature=draw.choice((0.2, 1.0, 2.0)),
        top_p=draw.choice((1.0, 0.9, 0.5)),
        top_k=draw.choice((20, 5, 1)),
        min_p=draw.choice((0.0, 0.1)),
        presence_penalty=draw.uniform(-2.0, 2.0),
        frequency_penalty=draw.uniform(-2.0, 2.0),
        seed=draw.randrange(1 << 64),
    )


@pytest.mark.contract("OPT-42")
@pytest.mark.parametrize("seed", range(8))
def test_each_token_is_that_of_its_prefix_and_of_all_selected_before(program: DeviceProgram, seed: int) -> None:
    """Whatever the rounds keep, a fresh row with the same past must choose the same."""
    tokens, settings = random_settings(seed)
    made = generate(program, tokens, settings)
    for cut in (1, 2, 5, 11, COUNT - 1):
        assert first(program, [*tokens, *made[:cut]], settings, made[:cut]) == made[cut]
        program.close_row(0)


@pytest.mark.contract("OPT-43")
def test_a_seed_names_an_answer(program: DeviceProgram) -> None:
    tokens, _ = random_settings(1)
    answers = [
        generate(program, tokens, msgspec.structs.replace(GREEDY, temperature=1.5, seed=seed))
        for seed in (3, 3, 4, 2**64 - 1, 2**63)
    ]
    assert answers[0] == answers[1]
    assert len({tuple(answer) for answer in answers}) == 4


@pytest.mark.contract("OPT-44")
@pytest.mark.parametrize("seed", range(4))
def test_greedy_knows_no_other_setting(program: DeviceProgram, seed: int) -> None:
    tokens, settings = random_settings(seed)
    greedy = generate(program, tokens, GREEDY)
    assert generate(program, tokens, msgspec.structs.replace(settings, temperature=0.0)) == greedy
    narrow = msgspec.structs.replace(GREEDY, temperature=1.0, top_k=1, seed=9)
    assert generate(program, tokens, narrow) == greedy, "one candidate leaves nothing to draw"
