from __future__ import annotations

from typing import Any

import pytest

from ninfer_core.api.errors import RequestError, ThinkingBudgetCapacityInsufficient
from ninfer_core.api.service import Finished
from ninfer_core.engine.messages import Failed
from ninfer_core.engine.thinking_budget import check_thinking_budget
from ninfer_core.testing.histories import Bench
from ninfer_core.testing.simulated_frontend import CONTROL_IDS, THINK_END_TOKEN, answer_token
from ninfer_core.testing.simulated_plan import simulated_plan
from ninfer_core.testing.simulated_program import SimulatedProgram, simulated_program

CONTROL = len(CONTROL_IDS)
GUIDANCE = bytes(CONTROL_IDS[:-1]).decode()


def bench(*, columns: int = 1, **capacities: int) -> Bench[SimulatedProgram]:
    plan = simulated_plan(draft_tokens=columns - 1, **capacities)
    return Bench(plan, simulated_program(plan))


def long_thinker(tokens: int) -> int:
    """A seed whose answer has at least so many tokens, each a character of its own."""
    return next(seed for seed in range(10_000) if all(answer_token(seed, each) < 128 for each in range(tokens)))


def finished(under_test: Bench[SimulatedProgram], request_id: int) -> Finished:
    last = under_test.observer.last[request_id]
    assert isinstance(last, Finished), last
    return last


@pytest.mark.contract("TMPL-14")
@pytest.mark.parametrize(
    ("budget", "limit", "fits"),
    [
        (10, 9, True),
        (10, 10, True),
        (10, 11, False),
        (10, 10 + CONTROL, False),
        (10, 10 + CONTROL + 1, True),
        (1, 2**40, True),
    ],
)
def test_the_end_of_thinking_fits_whole_or_is_not_needed(budget: int, limit: int, fits: bool) -> None:
    if fits:
        check_thinking_budget(budget, control_tokens=CONTROL, limit=limit)
        return
    with pytest.raises(ThinkingBudgetCapacityInsufficient) as caught:
        check_thinking_budget(budget, control_tokens=CONTROL, limit=limit)
    assert caught.value.code == "thinking_budget_capacity_insufficient"
    for number in (budget, CONTROL, limit, budget + CONTROL + 1):
        assert str(number) in caught.value.message


@pytest.mark.parametrize(("budget", "control_tokens"), [(0, 5), (-3, 5), (4, 0)])
def test_budgets_that_mean_nothing(budget: int, control_tokens: int) -> None:
    with pytest.raises(RequestError):
        check_thinking_budget(budget, control_tokens=control_tokens, limit=100)


def test_a_smaller_budget_is_proposed_only_where_there_is_one() -> None:
    roomy, tight = (
        ThinkingBudgetCapacityInsufficient(budget=90, control_tokens=20, limit=limit) for limit in (100, 19)
    )
    assert "a budget of 79 tokens or less" in roomy.message
    assert "or give" not in tight.message
    check_thinking_budget(79, control_tokens=20, limit=100)


@pytest.mark.contract("TMPL-12", "TMPL-13")
@pytest.mark.parametrize("columns", [1, 2, 16])
@pytest.mark.parametrize("budget", [1, 2, 7, 16, 17])
def test_thinking_is_closed_at_its_budget(columns: int, budget: int) -> None:
    """Whatever the round offers beyond the budget is dropped, and the stream goes on behind what was put in."""
    seed = long_thinker(36)
    under_test = bench(columns=columns)
    request_id = under_test.submit(seed=seed, channel="reasoning", thinking_budget=budget, max_output_tokens=36)
    under_test.finish()
    under_test.check_text(request_id)
    text, usage = under_test.observer.text[request_id], finished(under_test, request_id).usage
    assert text["reasoning"] == bytes(answer_token(seed, position) for position in range(budget)).decode() + GUIDANCE
    rest = range(budget + CONTROL, 36)
    assert text["content"] == bytes(answer_token(seed, position) for position in rest).decode()
    assert usage.output_tokens == 36
    assert usage.reasoning_tokens == budget + CONTROL
    assert (usage.thinking_budget, usage.model_thinking_tokens) == (budget, budget)
    assert (usage.thinking_control_tokens, usage.thinking_control_applied) == (CONTROL, True)
    assert under_test.program.kinds.count("control") == 1


@pytest.mark.contract("TMPL-11")
def test_what_ends_thinking_by_itself_goes_first() -> None:
    closes = next(
        seed
        for seed in range(10_000)
        if answer_token(seed, 1) == THINK_END_TOKEN and all(answer_token(seed, each) < 128 for each in range(2, 12))
    )
    under_test = bench()
    natural = under_test.submit(seed=closes, channel="reasoning", thinking_budget=2, max_output_tokens=40)
    seed = long_thinker(8)
    word = bytes(answer_token(seed, position) for position in range(5)).decode()
    stopped = under_test.submit(seed=seed, channel="reasoning", thinking_budget=5, max_output_tokens=40, stop=(word,))
    limited = under_test.submit(seed=seed, channel="reasoning", thinking_budget=5, max_output_tokens=5)
    cancelled = under_test.submit(seed=seed, channel="reasoning", thinking_budget=1, max_output_tokens=40)
    for _ in range(4 * 2):
        under_test.step()
        if under_test.program.open_rows == 4:
            break
    under_test.cancel(cancelled)
    under_test.finish()
    assert "control" not in under_test.program.kinds
    assert finished(under_test, natural).usage.model_thinking_tokens == 2
    assert finished(under_test, stopped).reason == "stop_string"
    assert finished(under_test, limited).reason == "output_limit"
    assert isinstance(under_test.observer.last[cancelled], Failed)
    under_test.check_nothing_leaked()


@pytest.mark.contract("TMPL-8")
def test_an_answer_without_thinking_has_no_budget() -> None:
    under_test = bench()
    request_id = under_test.submit(seed=long_thinker(30), channel="content", thinking_budget=3, max_output_tokens=30)
    under_test.finish()
    assert "control" not in under_test.program.kinds
    assert finished(under_test, request_id).usage.model_thinking_tokens == 0


@pytest.mark.contract("TMPL-14")
@pytest.mark.parametrize(("prompt_tokens", "max_output_tokens"), [(10, 20 + CONTROL), (256 - 20 - CONTROL, 10_000)])
def test_no_room_is_refused_before_anything_is_touched(prompt_tokens: int, max_output_tokens: int) -> None:
    under_test = bench(max_context=256)
    arguments: dict[str, Any] = {"channel": "reasoning", "prompt_tokens": prompt_tokens}
    refused = under_test.submit(thinking_budget=20, max_output_tokens=max_output_tokens, **arguments)
    under_test.step()
    last = under_test.observer.last[refused]
    assert isinstance(last, Failed) and last.code == "thinking_budget_capacity_insufficient"
    assert under_test.program.units == 0


def test_stop_strings_are_about_what_the_model_writes() -> None:
    """The guidance says `abca`; it neither stops there nor completes what the model began."""
    seed = long_thinker(20)
    last = chr(answer_token(seed, 4))
    under_test = bench()
    request_id = under_test.submit(
        seed=seed, channel="reasoning", thinking_budget=5, stop=("Enough", last + GUIDANCE[:2]), max_output_tokens=25
    )
    under_test.finish()
    assert finished(under_test, request_id).reason == "output_limit"
    assert under_test.observer.text[request_id]["reasoning"].endswith(last + GUIDANCE)


@pytest.mark.contract("EXEC-2")
def test_a_row_that_waits_for_control_holds_no_other_up() -> None:
    under_test = bench(max_concurrency=4, kv_pages=16)
    seed = long_thinker(36)
    under_test.submit(seed=2, max_output_tokens=36)
    under_test.step(2)
    for budget in (4, 4, 5):
        under_test.submit(seed=seed, channel="reasoning", thinking_budget=budget, max_output_tokens=36)
    under_test.finish()
    kinds = under_test.program.kinds
    assert kinds.count("control") == 3
    first = kinds.index("control")
    assert all(kinds[index + 1] == "decode" for index, kind in enumerate(kinds[first:-1], first) if kind == "control")
