"""The scripted program behind the engine's own session: rounds, endings, budgets."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest
from ninfer_models.qwen_hybrid.frontend import build_frontend

from ninfer_core.api.request import Channel
from ninfer_core.engine.scripted.answers import answer_seed
from ninfer_core.engine.scripted.frontend import ScriptedFrontend
from ninfer_core.engine.scripted.program import ScriptedFailure, ScriptedProgram, scripted_engine
from ninfer_core.engine.scripted.script import Script
from ninfer_core.plugins import PluginRegistry
from ninfer_core.program.contract import RowRound, RowSetup, Sampling
from ninfer_core.testing.tiny import tiny_header, tiny_plan


def engine(*answers: dict[str, Any], **options: Any) -> tuple[ScriptedFrontend, ScriptedProgram]:
    plan = tiny_plan(PluginRegistry.discover(), tiny_header(), **options)
    script = msgspec.convert({"answers": answers}, Script)
    return scripted_engine(plan, build_frontend(tiny_header()), script)


def setup(number: int = 0, channel: Channel = "content", reserved: int = 100) -> RowSetup:
    return RowSetup(
        prompt_tokens=10,
        reserved_tokens=reserved,
        sampling=Sampling(
            temperature=1, top_p=1, top_k=1, min_p=0, presence_penalty=0, frequency_penalty=0,
            seed=answer_seed(number, channel),
        ),
    )  # fmt: skip


def opened(program: ScriptedProgram, wanted: RowSetup) -> int:
    row = program.open_row(wanted)
    assert row is not None
    return row


def all_tokens(program: ScriptedProgram, row: int, accept: int = 1024) -> list[int]:
    """Run the row until its stop token, taking at most `accept` candidates of each round."""
    offered = [program.prefill(row, [0] * 10, last=True)]
    tokens: list[int] = []
    while True:
        taken = [token for token in offered if token is not None][:accept]
        tokens += taken
        if tokens[-1] == program._vocabulary.stop_id:
            return tokens[:-1]
        (candidates,) = program.decode([RowRound(row=row, accepted=len(taken))])
        offered = list(candidates)


@pytest.mark.parametrize("accept", [1, 2, 1024])
@pytest.mark.parametrize("per_round", [1, 3, 100])
def test_whatever_is_accepted_the_answer_is_the_same(per_round: int, accept: int) -> None:
    frontend, program = engine({"content": "One, two, three and four.", "tokens_per_round": per_round})
    tokens = all_tokens(program, opened(program, setup()), accept)
    assert b"".join(map(frontend.token_bytes, tokens)) == b"One, two, three and four."
    assert len(tokens) == 7


def test_thinking_is_told_where_the_prompt_left_it_open() -> None:
    frontend, program = engine({"reasoning": "Hm.", "content": "Yes."}, max_concurrency=2)
    texts = [
        b"".join(map(frontend.token_bytes, all_tokens(program, opened(program, setup(channel=channel)))))
        for channel in ("reasoning", "content")
    ]
    assert texts == [b"Hm.\n</think>\n\nYes.", b"Yes."]


def test_a_closed_block_is_followed_by_the_answer() -> None:
    frontend, program = engine({"reasoning": "thinking and thinking", "content": "Yes."})
    row = opened(program, setup(channel="reasoning"))
    assert program.prefill(row, [0] * 10, last=True) is not None
    program.decode([RowRound(row=row, accepted=1)])
    program.control(RowRound(row=row, accepted=1), frontend.thinking_control_ids)
    (candidates,) = program.decode([RowRound(row=row, accepted=1)])
    assert frontend.token_bytes(candidates[0]) == b"Yes."
    assert b"".join(map(frontend.token_bytes, frontend.thinking_control_ids)).endswith(b"</think>\n\n")


def test_length_goes_on_without_text() -> None:
    frontend, program = engine({"content": "x", "finish": "length"})
    row = opened(program, setup())
    first = program.prefill(row, [0] * 10, last=True)
    assert first is not None and frontend.token_bytes(first) == b"x"
    for _ in range(3):
        (candidates,) = program.decode([RowRound(row=row, accepted=1)])
        assert len(candidates) > 100
        assert {frontend.token_bytes(token) for token in candidates} == {b""}
        assert not set(candidates) & set(frontend.stop_token_ids)


def test_a_failure_comes_after_the_last_token() -> None:
    _, program = engine({"content": "12345678", "fail": True})
    row = opened(program, setup())
    program.prefill(row, [0] * 10, last=True)
    program.decode([RowRound(row=row, accepted=1)])
    with pytest.raises(ScriptedFailure):
        program.decode([RowRound(row=row, accepted=1)])


def test_pages_and_slots_are_counted_as_on_a_device() -> None:
    _, program = engine({"content": "x"}, max_concurrency=2, max_context=128, kv_capacity=128)
    assert program.open_row(setup(reserved=129)) is None
    first = opened(program, setup(reserved=64))
    assert program.open_row(setup(reserved=65)) is None
    opened(program, setup(reserved=64))
    assert program.open_row(setup(reserved=1)) is None
    program.close_row(first)
    assert program.open_row(setup(reserved=64)) == first


def test_a_round_takes_the_time_of_its_slowest_row() -> None:
    slept: list[float] = []
    _, program = engine(
        {"content": "12345678", "delay_ms": 10, "tokens_per_round": 2, "prompt_delay_ms": 7},
        {"content": "12345678", "delay_ms": 3},
        max_concurrency=2,
    )

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        time.sleep(seconds)

    program._sleep = sleep
    rows = [opened(program, setup(number)) for number in (0, 1)]
    for row in rows:
        program.prefill(row, [0] * 10, last=True)
    program.decode([RowRound(row=row, accepted=1) for row in rows])
    assert slept == [pytest.approx(0.007, abs=0.003), pytest.approx(0.01, abs=0.003)]


def test_units_that_are_launched_together_run_one_after_the_other() -> None:
    _, program = engine({"content": "x", "prompt_delay_ms": 20})
    row = opened(program, setup())
    begin = time.monotonic()
    units = [program.launch_prefill(row, [0] * 5, last=last) for last in (False, True)]
    ends = [(unit(), time.monotonic() - begin)[1] for unit in units]
    assert 0.02 <= ends[0] < 0.04 <= ends[1]
