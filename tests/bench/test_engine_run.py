"""`ninfer bench engine` with the embedded model: what it writes, and that its checks find what is wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from ninfer_core.bench.driver import Driver
from ninfer_core.bench.invariance import Mixes, check_invariance
from ninfer_core.bench.layers import check_layers, gather_layers, reference_noise
from ninfer_core.bench.probes import Evidence, Probe, compare, distance, gather, same_argmax
from ninfer_core.bench.records import load
from ninfer_core.bench.subject import Subject, started
from ninfer_core.cli.main import main
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plugins.registry import PluginRegistry

PROBE = Probe("some", context_tokens=100, prompt_tokens=20, chunk_tokens=16, rows=2, rounds=3)
LIMIT = 2e-3


@pytest.fixture(scope="module")
def subject() -> Iterator[Subject]:
    options = ServeOptions(device="cpu", max_concurrency=3, max_context=512, kv_capacity=1536)
    with started(options, PluginRegistry.discover()) as built:
        yield built


@pytest.fixture(scope="module")
def evidence(subject: Subject) -> Evidence:
    return gather(Driver(subject), subject, PROBE)


def test_the_program_agrees_with_itself(subject: Subject, evidence: Evidence) -> None:
    assert evidence.prefill.shape[:2] == (2, 20) and evidence.decode.shape[:2] == (2, 3)
    assert evidence.decode.argmax(-1).tolist() == [answer[1:] for answer in evidence.answers]
    check = compare(Driver(subject), subject, PROBE, evidence, LIMIT)
    assert check.passed, check


def test_a_wrong_logit_is_found(subject: Subject, evidence: Evidence) -> None:
    wrong = evidence.decode.clone()
    wrong[1, 2] = wrong[1, 2].roll(1)
    check = compare(Driver(subject), subject, PROBE, dataclasses.replace(evidence, decode=wrong), LIMIT)
    assert not check.passed and check.values["prefill_agreement"] == 1.0


def test_another_context_is_found(subject: Subject, evidence: Evidence) -> None:
    shorter = dataclasses.replace(PROBE, context_tokens=PROBE.context_tokens - 1)
    assert not compare(Driver(subject), subject, shorter, evidence, LIMIT).passed


def test_layers_are_compared_from_equal_inputs(subject: Subject) -> None:
    driver = Driver(subject)
    streams = gather_layers(driver, subject, PROBE)
    assert len(streams) == subject.plan.geometry.layers and streams[0].shape[0] == PROBE.prompt_tokens
    right = check_layers(driver, subject, PROBE, streams, 1e-6)
    assert right.passed and right.values["worst_error"] == 0.0
    streams[3] = streams[3] * 1.001
    wrong = check_layers(driver, subject, PROBE, streams, 1e-6)
    assert not wrong.passed and wrong.values["worst_layer"] == 3
    assert wrong.values["mean_error"] < 2 * wrong.values["worst_error"] / len(streams)  # the others stay right
    streams[2] = streams[2] * float("nan")
    assert not check_layers(driver, subject, PROBE, streams, 1.0).passed


def test_the_noise_of_the_reference_is_small_and_not_nothing(subject: Subject) -> None:
    assert 1e-7 < reference_noise(Driver(subject), subject, PROBE) < 1e-3


def test_a_near_tie_agrees_and_another_choice_does_not() -> None:
    expected = torch.tensor([[4.0, 3.9, 0.0, -1.0]]).expand(50, 4)
    other = expected.clone()
    other[0, 3] = 9.0
    noisy = expected + 0.1 * torch.randn(50, 4)
    assert distance(noisy, expected)[1] == 1.0 and same_argmax(noisy, expected) < 1.0
    assert distance(other, expected)[1] == pytest.approx(0.98)


def test_what_is_not_finite_is_infinitely_far() -> None:
    expected = torch.randn(4, 9)
    actual = expected.clone()
    actual[0, 0] = float("nan")
    assert distance(expected, expected) == (0.0, 1.0)
    assert distance(actual, expected) == (float("inf"), 0.0)


class Sociable(Driver):
    """Answers of rows in company are others."""

    def round(self, rows: list[int]) -> list[int]:  # type: ignore[override]
        tokens = super().round(rows)
        return tokens if len(rows) == 1 else [token + 1 for token in tokens]


@pytest.mark.parametrize(("driver", "passes"), [(Driver, True), (Sociable, False)])
def test_company_that_changes_answers_is_found(subject: Subject, driver: type[Driver], passes: bool) -> None:
    check = check_invariance(driver(subject), 3, Mixes(count=4, prompts=3, answer_tokens=8), chunk_tokens=64)
    assert check.passed is passes
    assert check.values["mixes"] == 4 and check.values["requests"] > 3
    assert subject.program.open_rows == 0


def test_the_command_writes_checked_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "bench engine --device cpu --max-concurrency 2 --max-context 256 --kv-capacity 512 --batches 1,2,4"
    cases = "--contexts 32,1k --prompts 48 --chunks 32,1k --rounds 4 --prefills 1 --host-tokens 12 --roof"
    code = main([*words.split(), *cases.split(), "--output", str(tmp_path)])
    said = capsys.readouterr()
    assert code == 0, said
    (run,) = load(sorted(tmp_path.iterdir()))
    assert [(each.case, each.rows, each.context_tokens, each.chunk_tokens) for each in run.figures] == [
        ("decode", 1, 32, 0),
        ("decode", 2, 32, 0),
        ("prefill", 1, 0, 32),
        ("prefill", 1, 0, 48),
    ]
    assert all(each.seconds > 0 and each.fraction is not None and each.fraction < 1 for each in run.figures)
    assert {each.check for each in run.figures} <= {check.name for check in run.checks if check.passed}
    assert "no room for 4 rows of 32 tokens" in run.remarks and "no room for a context of 1024 tokens" in run.remarks
    assert run.plan is not None and run.plan.digest == run.digest and run.digest in said.out
    assert run.cases is not None and run.cases.prompt_tokens == (48,) and len(run.code) == 12 and run.code in said.out
    assert run.start_seconds.keys() >= {"weights", "pools"}


@pytest.mark.parametrize(
    ("cases", "numbers"),
    [
        ("--contexts 1k", ("4 rounds of 1 rows over 1024 tokens take 1033", "it has 300 for one row", "320 for all")),
        ("--prompts 1k --chunks 64", ("a prompt of 1024 tokens takes 1033",)),
        ("--prompts 40", ("there are no chunks for it",)),
        ("--prompts 200 --chunks 200 --prefill-chunk 128", ("the smallest chunk is 200 tokens", "chunks of 128")),
        ("--contexts 32 --batches 2", ("4 rounds of 2 rows over 32 tokens", "1 rows")),
    ],
)
def test_a_plan_without_room_for_any_case_is_refused(
    cases: str, numbers: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is built, and nothing is written."""
    none = {flag: "" for flag in ("--contexts", "--prompts", "--chunks") if flag not in cases}
    words = ["bench", "engine", "--device", "cpu", "--max-context", "300", "--rounds", "4", *cases.split()]
    words += [word for pair in none.items() for word in pair]
    assert main([*words, "--output", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert all(each in said.err for each in numbers) and "--max-context" in said.err, said
    assert not list(tmp_path.iterdir()) and "start " not in said.out


@pytest.mark.parametrize("words", [["--batches", "1,x"], ["--contexts", "0"], ["--batches", ""]])
def test_numbers_that_are_none_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "engine", *words]) == 2
    assert words[0].removeprefix("--") in capsys.readouterr().err
