"""The stages of training: what was stopped goes on to the same bits, nothing hangs on the clock, and the whole way from
nothing to scores runs by the commands of the card."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from ninfer_core.cli.main import main as cli
from tools.tiny_model import (
    evaluate,
    evaluate_engine,
    export,
    heldout,
    loop,
    outcomes,
    stream,
    train,
    train_drafters,
)
from tools.tiny_model.compare_runs import compare
from tools.tiny_model.encode import Rows
from tools.tiny_model.export import save_weights
from tools.tiny_model.geometry import Geometry
from tools.tiny_model.model import TinyModel
from tools.tiny_model.scores import read_scores
from tools.tiny_model.stages import DRAFTERS, STAGES
from tools.tiny_model.state import MOST_BYTES
from tools.tiny_model.step import TrainingStep
from tools.tiny_model.stream import BatchStream
from tools.tiny_model.template import ASSETS

SMALL = {
    "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 2, "num_key_value_heads": 1,
    "linear_num_key_heads": 1, "linear_num_value_heads": 2,
}  # fmt: skip
"""Of the shipped configuration changed. DFlash reads three of its eight layers."""
SHALLOW = SMALL | {"vocab_size": 256, "num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"]}


def written(path: Path, changed: dict[str, object]) -> Path:
    path.write_text(json.dumps(json.loads((ASSETS / "config.json").read_text(encoding="utf-8")) | changed))
    return path


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return written(tmp_path / "small.json", SMALL)


def noise(job: tuple[int, int, int, bool, bool]) -> Rows:
    """A shard of no dialogues, made at once: three rows."""
    seed, length, *_ = job
    tokens = np.random.default_rng(seed).integers(250, size=(3, length), dtype=np.int16)
    return Rows(tokens, np.roll(tokens, -1, axis=1), np.arange(3 * length, dtype=np.int16).reshape(3, length) % length)


class Stopper:
    """Lets the time of the loop run out after so many steps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = -1
        monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: 0.0 if self.left else float("inf")))
        real = TrainingStep.__call__

        def counted(step: TrainingStep, rows: Rows, share: float) -> torch.Tensor:
            self.left -= 1
            return real(step, rows, share)

        monkeypatch.setattr(TrainingStep, "__call__", counted)


@pytest.fixture
def stopper(monkeypatch: pytest.MonkeyPatch) -> Stopper:
    monkeypatch.setattr(stream, "_make_shard", noise)
    # A batch comes again before the end.
    monkeypatch.setattr(stream, "REPEAT_AFTER", 1)
    return Stopper(monkeypatch)


def call(monkeypatch: pytest.MonkeyPatch, main: Callable[[], None], *arguments: str | Path) -> int:
    """The exit status."""
    monkeypatch.setattr(sys, "argv", ["stage", *map(str, arguments)])
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def same(one: Path, other: Path) -> bool:
    ones, others = load_file(one), load_file(other)
    return ones.keys() == others.keys() and all(torch.equal(ones[name], others[name]) for name in ones)


def test_a_target_that_was_stopped_twice_has_the_weights_of_one_that_was_not(
    stopper: Stopper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(train, "draw_losses", lambda losses, path: None)
    small = (
        "--config", written(tmp_path / "shallow.json", SHALLOW), "--rows", "8", "--length", "64", "--workers", "0",
        "--per-skill", "0", "--no-compile",
    )  # fmt: skip
    stopped, whole = tmp_path / "stopped", tmp_path / "whole"
    for steps in (2, 1):
        stopper.left = steps
        assert call(monkeypatch, train.main, "first", "--out", stopped, "--steps", "4", *small) == 3
        assert not (stopped / "model.safetensors").exists()
        assert all(path.stat().st_size <= MOST_BYTES for path in stopped.iterdir())
    assert "out_of_time: 3 of 4 steps are done" in capsys.readouterr().err
    stopper.left = -1
    assert call(monkeypatch, train.main, "first", "--out", stopped, "--steps", "5", *small) == 2
    assert "state_of_others" in capsys.readouterr().err
    for out in (stopped, whole):
        assert call(monkeypatch, train.main, "first", "--out", out, "--steps", "4", *small) == 0
    assert same(stopped / "model.safetensors", whole / "model.safetensors")
    assert (stopped / "losses.json").read_text() == (whole / "losses.json").read_text()
    assert not list(stopped.glob("state*"))


def test_drafters_that_were_stopped_in_both_parts_have_the_weights_of_those_that_were_not(
    config: Path, stopper: Stopper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(1)
    save_weights(TinyModel(Geometry.read(config)), tmp_path)
    small = (
        "--target", tmp_path, "--config", config, "--first-steps", "2", "--second-steps", "2", "--rows", "1",
        "--length", "128", "--workers", "0",
    )  # fmt: skip
    monkeypatch.setattr(train_drafters, "ANCHORS", 4)
    stopped, whole = tmp_path / "stopped", tmp_path / "whole"
    for steps in (1, 2):
        stopper.left = steps
        assert call(monkeypatch, train_drafters.main, "--out", stopped, *small) == 3
    stopper.left = -1
    for out in (stopped, whole):
        assert call(monkeypatch, train_drafters.main, "--out", out, *small) == 0
    assert same(stopped / "drafters.safetensors", whole / "drafters.safetensors")
    assert (stopped / "draft_losses.json").read_text() == (whole / "draft_losses.json").read_text()


def test_batches_are_the_same_whoever_generates_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "SHARD_DIALOGUES", 12)
    monkeypatch.setattr(stream, "LONG_SHARD_DIALOGUES", 1)

    def batches(workers: int) -> list[tuple[bytes, ...]]:
        with BatchStream(
            seed=3, workers=workers, rows=8, length=128, chunk=32, long_every=2, repeat=True
        ) as given:  # fmt: skip
            return [
                (rows.tokens.tobytes(), rows.labels.tobytes(), rows.positions.tobytes())
                for rows, _ in zip(given, range(5), strict=False)
            ]

    assert batches(0) == batches(2)


def test_a_stage_that_goes_on_wants_the_weights_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, train.main, "second", "--out", tmp_path) == 2
    assert "begins with the weights of stage first" in capsys.readouterr().err


def test_the_committed_stages_are_those_of_the_shipped_weights() -> None:
    """The steps that its curves end at: another count is another schedule, and no run to compare with."""
    assert [(stage.steps, stage.seed) for stage in STAGES.values()] == [(5200, 1), (5904, 2), (5651, 21)]
    assert (DRAFTERS.first_steps, DRAFTERS.second_steps, DRAFTERS.seed) == (888, 381, 11)


@pytest.mark.long
def test_the_commands_of_the_card_lead_from_nothing_to_scores(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stream, "SHARD_DIALOGUES", 24)
    monkeypatch.setattr(stream, "LONG_SHARD_DIALOGUES", 1)
    # Short prompts, and answers that random weights would never end.
    monkeypatch.setattr(heldout, "SKILLS", [skill for skill in heldout.SKILLS if skill[0] in ("units", "capitals")])
    monkeypatch.setattr(evaluate, "MOST_TOKENS", 16)
    monkeypatch.setattr(outcomes, "MOST_TOKENS", 16)
    monkeypatch.setattr(train, "draw_losses", lambda losses, path: None)

    def run(main: Callable[[], None], *arguments: str | Path) -> None:
        assert call(monkeypatch, main, *arguments) == 0

    small = ("--config", config, "--length", "128", "--workers", "0")
    target = (*small, "--rows", "8", "--steps", "2", "--no-compile")
    scored = ("--per-skill", "1", "--modes", "off")
    run(train.main, "first", "--out", "s1", *target, "--per-skill", "0")
    run(train.main, "second", "--from", "s1", "--out", "s2", *target, *scored)
    steps = ("--first-steps", "1", "--second-steps", "1")
    run(train_drafters.main, "--target", "s2", "--out", "drafters", *small, "--rows", "2", *steps)
    run(export.main, "dense", "--target", "s2", "--drafters", "drafters", "--config", config, "--dialogues", "200")
    assert cli(["convert", "dense", "-o", "tiny.ninfer", "--model-id", "ninfer-tiny"]) == 0
    run(
        evaluate_engine.main, "tiny.ninfer", *scored, "--skills", "units", "--device", "cpu", "--out", "scores.json"
    )  # fmt: skip
    found = read_scores(Path("scores.json"))
    assert found.counts()["off"]["units"][1] == 1
    assert compare(found, read_scores(Path("s2/eval.json")), common=True)
