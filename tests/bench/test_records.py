"""A figure is written with the check that covers it, or not at all."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ninfer_core.api.errors import StartFailed
from ninfer_core.api.service import Speculation
from ninfer_core.bench.records import Check, Figure, LoadFigure, Machine, Roof, Run, load, save
from ninfer_core.bench.wording import check_line, figure_line, load_line, roof_line

MACHINE = Machine(device="none", torch="2", triton="3", driver="1", python="3.11")


def figure(check: str) -> Figure:
    return Figure(
        case="decode",
        check=check,
        seconds=0.02,
        slow_seconds=0.03,
        samples=5,
        tokens=8,
        rows=8,
        context_tokens=128,
        floor_seconds=0.01,
    )


def load_figure(check: str) -> LoadFigure:
    percentiles = {"p50": 0.01, "p90": 0.02, "p99": 0.03}
    return LoadFigure(
        concurrency=4,
        requests=8,
        errors={"status 429": 2},
        seconds=2.0,
        output_tokens=100,
        first_token_seconds=percentiles,
        between_tokens_seconds=percentiles,
        check=check,
    )


def run() -> Run:
    checks = tuple(
        Check(name=name, passed=passed, values={"error": 1.0}, limits={"error": 2.0})
        for name, passed in (("good", True), ("bad", False))
    )
    return Run(
        kind="engine",
        date="2026-01-01T00:00:00+00:00",
        digest="0123",
        model="some",
        machine=MACHINE,
        figures=tuple(figure(check) for check in ("good", "bad", "never made")),
        loads=(load_figure("bad"), load_figure("good")),
        checks=checks,
        roof=Roof(copy_bytes_per_second=4e12, matmul_flops=8e14),
    )


def test_only_checked_figures_are_written(tmp_path: Path) -> None:
    path = save(run(), tmp_path / "new")
    assert path.name == "engine-some-0123.json"
    (written,) = load([path])
    assert [each.check for each in written.figures] == ["good"]
    assert [each.check for each in written.loads] == ["good"]
    assert [check.name for check in written.failed] == ["bad"]
    assert written.roof == run().roof


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"kind": 3}')
    with pytest.raises(StartFailed, match=r"other\.json is no result"):
        load([other])
    with pytest.raises(StartFailed, match="missing"):
        load([tmp_path / "missing.json"])
    other.write_text('{"kind": ' + 100_000 * "[")
    with pytest.raises(StartFailed, match=r"other\.json is no result"):
        load([other])
    other.write_text('{"unknown": ' + 100_000 * "[")
    with pytest.raises(StartFailed, match=r"other\.json is no result"):
        load([other])


def test_lines_have_the_numbers() -> None:
    assert "20.000 ms" in figure_line(figure("good")) and "50.0% of the roof" in figure_line(figure("good"))
    assert "50.0 tokens/s" in load_line(load_figure("good")) and "2 x status 429" in load_line(load_figure("good"))
    assert check_line(run().checks[1]).startswith("WRONG")
    assert (
        roof_line(Roof(copy_bytes_per_second=4e12, matmul_flops=8e14, fp8_matmul_flops=1e15)).count("4.000 TB/s") == 1
    )


@pytest.mark.parametrize(
    ("drafts", "words"),
    [
        (None, "roof"),
        ((16, 40, 30, 0, (13, 10, 7)), "kept 81/62/44 %"),
        ((16, 3, 0, 13, (0,)), "kept 0 %, 13 of 16 without"),
        ((16, 0, 0, 16, ()), "16 of 16 without"),
    ],
)
def test_what_became_of_drafts_ends_the_line(
    drafts: tuple[int, int, int, int, tuple[int, ...]] | None, words: str
) -> None:
    counts = None
    if drafts is not None:
        rounds, drafted, accepted, without, places = drafts
        counts = Speculation(
            rounds=rounds,
            drafted_tokens=drafted,
            accepted_tokens=accepted,
            fallback_steps=without,
            accepted_per_position=places,
        )
    assert figure_line(msgspec.structs.replace(figure("good"), speculation=counts)).endswith(words)
