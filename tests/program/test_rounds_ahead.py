"""Rounds behind rounds that nobody has seen: the text is the one of rounds that are collected one by one."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import msgspec
import pytest

from ninfer_core.plugins import PluginRegistry
from ninfer_core.program.contract import RowRound, RowSetup
from ninfer_core.program.rows import Row
from ninfer_core.program.runner import DeviceProgram
from ninfer_core.testing.scripted_drafters import Adversary, AlwaysRight, AlwaysWrong, Drawn, Fickle
from tests.program.drafted import (
    GREEDY,
    OUTPUT,
    PROMPTS,
    WISHES,
    AheadOfUnits,
    begin,
    build_adversary,
    generate,
    next_rounds,
    prompt,
    sampled,
    tell,
)


@pytest.mark.contract("EXEC-19")
@pytest.mark.parametrize(
    ("kind", "draft_tokens"), [(AlwaysRight, 3), (AlwaysWrong, 3), (Fickle, 1), (Fickle, 4), (AlwaysRight, 15)]
)
def test_rounds_ahead_change_no_token(
    kind: type[Adversary], draft_tokens: int, scripted: PluginRegistry, texts: list[list[int]]
) -> None:
    """Penalties, seeds and lengths included, on rows that others have left with a round in flight."""
    program, drafter = build_adversary(scripted, kind, draft_tokens, max_concurrency=3, kv_capacity=3 * 512)

    def on_open(row: int, wish: int) -> None:
        tell(drafter.texts, row, [*PROMPTS[wish], *texts[wish]])

    seen: Counter[str] = Counter()
    for seed in range(2):
        ahead = AheadOfUnits(program, WISHES, OUTPUT, random.Random(seed), cuts=True, on_open=on_open)
        assert ahead.run() == texts
        seen += ahead.seen
    assert program.open_rows == 0 and program.pages.free_pages == program.pages.pages
    assert seen["ahead"] > 8 and seen["abandoned"] > 0 and seen["waited"] > 0
    # An answer with two tokens to go ends unforeseen when a round gives as many.
    assert seen["ended ahead"] > 0 or kind is AlwaysWrong or draft_tokens == 1, seen


def test_rounds_ahead_without_drafts(plain: DeviceProgram, texts: list[list[int]]) -> None:
    assert AheadOfUnits(plain, WISHES, OUTPUT, random.Random(1), cuts=False).run() == texts


def test_drafts_that_were_drawn_are_the_same_ahead(scripted: PluginRegistry) -> None:
    """Where all that is offered is taken, rounds are cut alike."""
    program, drafter = build_adversary(scripted, Drawn, 5)
    expected = [generate(program, tokens, each, OUTPUT) for tokens, each in WISHES]
    assert AheadOfUnits(program, WISHES, OUTPUT, random.Random(2), cuts=False).run() == expected
    assert bool((drafter.texts == 0).all())


@pytest.mark.parametrize("sampling", [GREEDY, sampled(3, presence_penalty=1.0)], ids=["greedy", "sampled"])
def test_forced_tokens_behind_rounds_that_went_ahead(sampling: Any, scripted: PluginRegistry, plain: Any) -> None:
    tokens, forced = prompt(70, 3), [10, 20, 30]
    program, drafter = build_adversary(scripted, AlwaysRight, 3)
    text = generate(plain, tokens, sampling, 60)
    row, candidate = begin(program, tokens, sampling, 120)
    tell(drafter.texts, row, [*tokens, *text])
    units = [program.launch_decode([RowRound(row, 1)]), program.launch_decode([RowRound(row, None)])]
    made = [candidate, *(token for unit in units for token in unit()[0])]
    assert made == text[:9]
    program.control(RowRound(row, 2), forced)  # of the four that the second round offers
    alone, _ = begin(plain, tokens, sampling, 120)
    for _ in range(6):
        plain.decode([RowRound(alone, 1)])
    plain.control(RowRound(alone, 1), forced)
    expected = [plain.decode([RowRound(alone, 1)])[0][0] for _ in range(20)]
    plain.close_row(alone)
    tell(drafter.texts, row, [*tokens, *text[:7], *forced, *expected])
    behind = [program.launch_decode([RowRound(row, 1)]), program.launch_decode([RowRound(row, None)])]
    found = [token for unit in behind for token in unit()[0]]
    assert found == expected[:8]


def test_a_round_behind_the_end_of_a_row_stays_in_its_room(scripted: PluginRegistry, plain: DeviceProgram) -> None:
    """A row at the end of its reservation and of the context, gone ahead with as far as it may be: columns of drafts
    reach as far as those of a row that goes on, and beside it nothing changes."""
    program, drafter = build_adversary(scripted, AlwaysRight, 15, max_context=128, max_concurrency=2, kv_capacity=256)
    tokens = prompt(100, 1)
    text = generate(plain, tokens, GREEDY, 28)
    rows = [begin(program, tokens, GREEDY, 28)[0] for _ in range(2)]
    for row in rows:
        tell(drafter.texts, row, [*tokens, *text])
    first = program.launch_decode([RowRound(row, 1) for row in rows])
    second = program.launch_decode([RowRound(row, None) for row in rows])
    assert first() == (tuple(text[1:17]),) * 2
    third = program.launch_decode([RowRound(row, None) for row in rows])
    assert second()[0][:11] == tuple(text[17:])
    lengths = program._pools.rows.lengths[rows].tolist()
    assert lengths == [127, 127], "all but the last token of the context"
    program.close_row(rows[0])
    row, candidate = begin(program, tokens, GREEDY, 28)
    assert candidate == text[0]
    third()
    tell(drafter.texts, row, [*tokens, *text])
    assert next_rounds(program, {row: 1})[row][0] == tuple(text[1:17])


def row() -> Row:
    return Row(RowSetup(10, 40, msgspec.structs.replace(GREEDY)), (0,), length=10)


def test_what_the_host_knows_of_a_row_that_goes_ahead() -> None:
    """The most that its length may be until the round before is seen, and then the length itself."""
    state = row()
    state.launched(1)
    state.collected((7,))
    assert state.take(1) == (1, 0)
    state.in_flight = True
    state.launched(4)
    assert state.take(None) == (4, 4) and state.length == 14
    state.launched(4)
    state.collected((7, 8))
    assert (state.length, state.offered) == (12, 4)
    state.collected((9,))
    assert state.take(1) == (1, 1) and state.length == 13
    state.launched(4)
    state.collected(())  # of kernels that were only compiled
    assert state.take(1) == (1, 1)


def test_wrong_use_of_what_nobody_has_seen_is_refused() -> None:
    state = row()
    state.launched(1)
    with pytest.raises(AssertionError, match="nobody has seen"):
        state.take(1)
    with pytest.raises(AssertionError, match="nobody has seen"):
        state.take(None)  # of a prompt
    state.collected((7,))
    with pytest.raises(AssertionError, match="nobody has seen"):
        state.take(None)
    with pytest.raises(AssertionError, match="N = 2 of 1 candidates"):
        state.take(2)
    state.take(1)
    state.in_flight = True
    state.launched(4)
    state.take(None)
    state.launched(4)
    with pytest.raises(AssertionError, match="2 units"):
        state.take(None)
    state.collected((7, 8))
    with pytest.raises(AssertionError, match="N = 1 of candidates that nobody has seen"):
        state.take(1)
