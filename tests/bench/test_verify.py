"""Rounds that check drafts which nobody drafts; and which code was measured."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ninfer_core.bench import code as code_module
from ninfer_core.bench.code import code_of
from ninfer_core.bench.driver import Driver
from ninfer_core.bench.subject import started
from ninfer_core.bench.verify import with_verify
from ninfer_core.cli.main import main
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plugins.registry import PluginRegistry


def test_rounds_check_drafts_that_cost_nothing() -> None:
    options = ServeOptions(
        device="cpu", spec="verify", draft_tokens=3, max_concurrency=2, max_context=256, kv_capacity=512
    )
    with started(options, with_verify(PluginRegistry.discover())) as subject:
        driver = Driver(subject)
        rows = driver.standing(2, 16, 64)
        with subject.accepting(1.0):
            all_kept = driver.rounds(rows, 2)
        with subject.accepting(0.0):
            none_kept = driver.rounds(rows, 2)
        driver.close(rows)
    assert all_kept.tokens == [[4, 4], [4, 4]] and none_kept.tokens == [[1, 1], [1, 1]]
    assert all_kept.drafted == none_kept.drafted == [(3, 3), (3, 3)]
    ledger = {line.name: line.bytes for line in subject.plan.ledger.lines}
    assert ledger["drafter_weights"] == ledger["drafter_state"] == 0


def test_the_command_knows_it(capsys: pytest.CaptureFixture[str]) -> None:
    words = "bench engine --device cpu --max-context 64 --contexts 128 --prompts 128 --chunks 64 --spec verify"
    assert main(words.split()) == 1
    assert "room for nothing" in capsys.readouterr().err


def test_no_server_knows_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--device", "cpu", "--spec", "verify"]) == 2
    assert "no spec plugin 'verify'" in capsys.readouterr().err
    registry = with_verify(PluginRegistry.discover())
    assert [offer.name for offer in registry.offers("spec")][-1] == "verify"


def checkout(folder: Path) -> Path:
    (folder / "core" / "ops").mkdir(parents=True)
    (folder / "core" / "ops" / "some.py").write_text("x = 1\n")
    for words in ("init -q", "add .", "-c user.name=a -c user.email=a@b commit -q -m c"):
        subprocess.run(["git", "-C", str(folder), *words.split()], check=True)
    return folder / "core"


def test_a_code_is_known_by_its_bytes_and_by_its_commit_where_it_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_module, "CORE", checkout(tmp_path))
    nothing = PluginRegistry(())
    committed = code_of(nothing)
    assert len(committed.digest) == len(committed.commit) == 12 and code_of(nothing) == committed
    (tmp_path / "core" / "ops" / "some.py").write_text("x = 2\n")
    changed = code_of(nothing)
    assert changed.digest != committed.digest and changed.commit == ""
    assert code_of(PluginRegistry.discover()).digest != changed.digest, "plugins count too"


def test_a_folder_that_is_no_checkout_of_its_own_has_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment within somebody's repository."""
    checkout(tmp_path)
    (tmp_path / "environment" / "core" / "ops").mkdir(parents=True)
    monkeypatch.setattr(code_module, "CORE", tmp_path / "environment" / "core")
    assert code_of(PluginRegistry(())).commit == ""
