"""The file of the campaign asks for what the command knows and a card has room for, and its tables read runs right."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ninfer_core.api.errors import StartFailed
from ninfer_core.bench.acceptance import break_even, expected_tokens
from ninfer_core.bench.campaign import Campaign, Goal, Row, read_campaign
from ninfer_core.bench.cases import PROBE_ROUNDS, check_room
from ninfer_core.bench.engine_run import reference_options
from ninfer_core.bench.goals import attention_shares, newest_runs, round_lines, step_lines
from ninfer_core.bench.measure import round_tokens
from ninfer_core.bench.records import Check, Figure, Machine, Run, save
from ninfer_core.bench.verify import with_verify
from ninfer_core.bench.worker import Task
from ninfer_core.cli.bench_campaign import task_of
from ninfer_core.plan.memory import PAGE_TOKENS, pages_for
from ninfer_core.plan.prepare import prepare
from ninfer_core.plugins.registry import PluginRegistry

FILE = Path(__file__).parents[2] / "bench" / "campaign.toml"
H200_BYTES = 150_109_880_320


@pytest.fixture(scope="module")
def campaign() -> Campaign:
    return read_campaign(FILE)


@pytest.fixture(scope="module")
def tasks(campaign: Campaign) -> dict[str, Task]:
    return {row.name: task_of(campaign, row, Path("out")) for row in campaign.row}


def test_every_goal_is_measured_by_its_row(campaign: Campaign, tasks: dict[str, Task]) -> None:
    for row in campaign.row:
        cases = tasks[row.name].cases
        assert cases.roof and cases.context_tokens[0] == 128
        for goal in row.goals:
            if goal.case == "decode":
                assert goal.rows in cases.batches and goal.tokens in cases.context_tokens
            else:
                assert goal.tokens in cases.prompt_tokens


def test_rounds_are_held_against_steps_of_the_same_weights(campaign: Campaign, tasks: dict[str, Task]) -> None:
    drafted = [row for row in campaign.row if row.steps]
    assert {tasks[row.name].options.spec for row in drafted} == {"verify", "mtp", "dflash2"}
    for row in drafted:
        ours, plain = tasks[row.name], tasks[row.steps]
        assert (ours.options.artifact, ours.options.weights) == (plain.options.artifact, plain.options.weights)
        assert plain.options.spec is None and set(ours.cases.batches) <= set(plain.cases.batches)
        assert {goal.rows for goal in row.rounds} <= set(ours.cases.batches)


@pytest.mark.parametrize("name", [row.name for row in read_campaign(FILE).row])
def test_a_row_asks_for_room_for_the_largest_of_its_cases(name: str, tasks: dict[str, Task]) -> None:
    options, cases = tasks[name].options, tasks[name].cases
    rows, columns = max(cases.batches), 1 + (options.draft_tokens or 0)
    context = max(cases.context_tokens) + round_tokens(columns, cases.rounds)
    prompt = max(cases.prompt_tokens) + PROBE_ROUNDS + 1
    assert rows <= options.max_concurrency and max(cases.chunk_tokens) <= options.prefill_chunk
    assert options.max_context is not None and max(context, prompt) <= options.max_context
    assert isinstance(options.kv_capacity, int)
    assert max(rows * pages_for(context), pages_for(prompt)) <= options.kv_capacity // PAGE_TOKENS


@pytest.mark.long
@pytest.mark.parametrize("name", ["27b-bf16-contexts", "27b-bf16-prompts", "35b-bf16-contexts"])
def test_a_card_has_room_for_the_largest_rows_and_their_references(name: str, tasks: dict[str, Task]) -> None:
    task, registry = tasks[name], with_verify(PluginRegistry.discover())
    options = msgspec.structs.replace(task.options, device=0, assume_device_memory=H200_BYTES)
    check_room(prepare(options, registry).plan.capacities, task.cases)
    prepare(reference_options(options), registry)


def test_what_a_row_says_goes_before_what_all_say(campaign: Campaign, tasks: dict[str, Task]) -> None:
    assert tasks["27b-bf16"].options.max_concurrency == 8
    assert tasks["27b-bf16-prompts"].options.max_concurrency == 1


def test_rows_are_chosen_by_name_in_the_order_of_the_file(campaign: Campaign) -> None:
    assert [row.name for row in campaign.chosen(("27b-fp8", "27b-bf16"))] == ["27b-bf16", "27b-fp8"]
    assert campaign.chosen(()) == campaign.row
    with pytest.raises(StartFailed, match=r"no row 27b-fp4; it has 27b-bf16,"):
        campaign.chosen(("27b-fp4",))


ROW = '[[row]]\nname = "a"\nrun = ""\nseconds = 1\n'


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("row = 3", "Expected `array`"),
        ("[[row]", "Expected ']]'"),
        ("deep = " + "[" * 3000 + "]" * 3000, "recursion depth"),
        ("long = " + "1" * 5000, "Exceeds the limit"),
        (ROW + "rosf = 1", "unknown field `rosf`"),
        (ROW.replace('"a"', '"../a"'), "matching regex"),
        (ROW.replace("seconds = 1", "seconds = 0"), "> 0"),
        (ROW + ROW, "a more than once"),
        (ROW + 'steps = "b"', "steps of b are asked for"),
    ],
)
def test_a_file_that_is_no_campaign_is_refused(text: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "campaign.toml"
    path.write_text(text)
    with pytest.raises(StartFailed, match=r"campaign\.toml is no campaign") as caught:
        read_campaign(path)
    assert complaint in caught.value.message


@pytest.mark.parametrize(
    ("words", "complaint"),
    [("--batches x", "no list of numbers"), ("--max-context 0", "max-context"), ("--wrong", "No such option")],
)
def test_a_row_that_the_command_does_not_know_is_named(words: str, complaint: str) -> None:
    row = Row(name="some", run=words, seconds=1)
    with pytest.raises(StartFailed, match="row some cannot be asked for") as caught:
        task_of(Campaign(row=(row,)), row, Path("out"))
    assert complaint in caught.value.message


def figure(case: str, rows: int, context: int, tokens: float, seconds: float, floor: float | None = None) -> Figure:
    return Figure(
        case=case,
        check="all",
        seconds=seconds,
        slow_seconds=seconds,
        samples=1,
        tokens=tokens,
        rows=rows,
        context_tokens=context,
        floor_seconds=floor,
        host_share=0.01 if rows == 8 and context == 128 else None,
    )


def drafted_figure(rows: int, seconds: float, tokens: float, acceptance: float | None) -> Figure:
    plain = figure("decode", rows, 128, tokens, seconds)
    return msgspec.structs.replace(plain, draft_tokens=3, acceptance=acceptance, host_share=None)


def run_of(*figures: Figure, card: str = "one", date: str = "2026-01-01", digest: str = "0123") -> Run:
    return Run(
        kind="engine",
        date=date,
        digest=digest,
        model="some",
        machine=Machine(device="", torch="", triton="", driver="", python="", card=card),
        figures=figures,
        checks=(Check(name="all", passed=True, values={}, limits={}),),
        start_seconds={"weights": 1.0, "kernels": 2.5},
        code="c0de",
    )


def test_the_table_of_steps(campaign: Campaign) -> None:
    run = run_of(
        figure("decode", 1, 128, 1, 0.0140, 0.0119),
        figure("decode", 8, 128, 8, 0.0150, 0.0125),
        figure("decode", 8, 65536, 8, 0.0250, 0.0205),
        figure("prefill", 1, 0, 8192, 0.700, 0.54),
        figure("prefill", 1, 0, 8192, 0.600, 0.54),
    )
    rows = {line[0]: line[1:] for line in step_lines(campaign, {"27b-bf16": run})}
    assert rows["27b-bf16: step, B=1"] == ("14.00 ms", "14.00 ms", "13.10 ms", "85%", "1.07x", "0123", "c0de")
    assert rows["27b-bf16: prefill of 8192 tokens"][0] == "600.00 ms"  # the best chunk
    assert rows["27b-bf16: start"][:2] == ("3.5 s", "25 s")
    assert rows["27b-bf16: waiting for the host, B=8"][:2] == ("1.0%", "3%")
    assert rows["27b-bf16: attention at 65536, B=8"][:2] == ("80% of the copy rate", "70%")
    assert attention_shares(run) == [(8, pytest.approx(0.8))]  # 8 ms of reading in 10 ms more


def test_a_goal_without_a_figure_is_in_the_table() -> None:
    row = Row(name="some", run="", seconds=1, goals=(Goal(case="decode", tokens=128, reach_ms=5),))
    ((title, *cells), _) = step_lines(Campaign(row=(row,)), {"some": run_of()})
    assert (title, cells[:2]) == ("some: step, B=1", ["no checked figure", "5.00 ms"])


def test_the_table_of_rounds(campaign: Campaign) -> None:
    plain = run_of(figure("decode", 1, 128, 1, 0.0100), figure("decode", 8, 128, 8, 0.0110))
    drafted = run_of(
        drafted_figure(1, 0.0120, 1.0, 0.0), drafted_figure(1, 0.0120, 4.0, 1.0), drafted_figure(4, 0.0130, 16.0, 1.0)
    )
    ((case, *line),) = round_lines(campaign, {"27b-bf16-mtp3": drafted, "27b-bf16": plain})
    assert case == "27b-bf16-mtp3, B=1"
    assert line == ["12.00 ms", "1.200x", "1.24x", "0.17", "100", "0: 83  1: 333", "0123", "c0de", ""]
    ((*_, rates, _, _, _),) = round_lines(
        campaign, {"27b-bf16-mtp3": run_of(drafted_figure(1, 0.0120, 1.5, None)), "27b-bf16": plain}
    )
    assert rates == "125"


def test_a_ratio_of_two_cards_is_said_to_be_one(campaign: Campaign) -> None:
    plain, drafted = run_of(figure("decode", 1, 128, 1, 0.01)), run_of(drafted_figure(1, 0.012, 1.0, 0.0), card="two")
    ((*_, doubt),) = round_lines(campaign, {"27b-bf16-mtp3": drafted, "27b-bf16": plain})
    assert "another card" in doubt


def test_the_newest_result_of_a_row_counts(tmp_path: Path) -> None:
    """Its plan, and so the name of its file, changes with the code."""
    row = Row(name="some", run="", seconds=1)
    for date, digest in (("2026-01-02", "a"), ("2026-01-01", "b")):
        save(run_of(date=date, digest=digest), tmp_path / "some")
    assert newest_runs(tmp_path, (row, Row(name="other", run="", seconds=1))).keys() == {"some"}
    assert newest_runs(tmp_path, (row,))["some"].digest == "a"


def test_where_drafting_begins_to_pay() -> None:
    even = break_even(1.75, 2)
    assert even is not None and expected_tokens(even, 2) == pytest.approx(1.75)
    assert break_even(1.0, 3) == pytest.approx(0.0, abs=1e-9)
    assert break_even(4.5, 3) is None
