"""`ninfer bench engine` with drafts: rounds at an acceptance of one's choice."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ninfer_core.bench.acceptance import expected_tokens
from ninfer_core.bench.records import load
from ninfer_core.bench.synthetic import SyntheticAcceptor
from ninfer_core.bench.tap import LogitsTap
from ninfer_core.cli.main import main
from ninfer_core.ops.accept import Accepted, Drafts
from ninfer_core.ops.sample import ChosenRows, SamplerTable
from ninfer_core.program.runner import DeviceProgram

ROWS, DRAFTS = 400, 5


class Told:
    """An acceptor that offers one token, of a known row of tokens."""

    def accept(self, logits: torch.Tensor, drafts: Drafts, *arguments: object) -> Accepted:
        return Accepted(torch.arange(ROWS * (3 + DRAFTS)).view(ROWS, 3 + DRAFTS))


def set_up(probability: float | None, counts: torch.Tensor) -> tuple[SyntheticAcceptor, ChosenRows, Drafts]:
    acceptor = SyntheticAcceptor(Told(), torch.device("cpu"))
    acceptor.keep(probability)
    table = SamplerTable(torch.zeros(ROWS, 5), torch.ones(ROWS, dtype=torch.int64), torch.arange(ROWS))
    positions = torch.arange(1 + DRAFTS).expand(ROWS, 1 + DRAFTS)
    drafts = Drafts(torch.zeros(ROWS, DRAFTS, dtype=torch.int64), counts)
    slots = torch.arange(ROWS)
    return acceptor, ChosenRows(table, slots, slots, positions, token_domain=9), drafts


def offered(probability: float | None, counts: torch.Tensor) -> torch.Tensor:
    acceptor, rows, drafts = set_up(probability, counts)
    by_slot = torch.zeros(ROWS, dtype=torch.int64)
    found = acceptor.accept(torch.zeros(1), drafts, rows, rows.positions, by_slot)
    assert torch.equal(by_slot, found.offered)
    assert torch.equal(found.packed[:, 1:], Told().accept(torch.zeros(1), drafts).packed[:, 1:])
    return found.offered


def test_drafts_are_kept_with_the_probability_that_was_asked_for() -> None:
    all_of_them = torch.full((ROWS,), DRAFTS)
    assert offered(0.0, all_of_them).eq(1).all()
    assert offered(1.0, all_of_them).eq(1 + DRAFTS).all()
    assert offered(1.0, torch.full((ROWS,), 2)).eq(3).all()
    assert offered(0.7, all_of_them).double().mean().item() == pytest.approx(expected_tokens(0.7, DRAFTS), abs=0.25)
    assert torch.equal(offered(None, all_of_them), torch.arange(ROWS) * (3 + DRAFTS))


class Launches(TorchDispatchMode):  # type: ignore[misc]
    """Counts operations that make something, views left out."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += not func.is_view
        return func(*args, **(kwargs or {}))


def test_it_is_no_burden_for_a_round() -> None:
    """Its launches are timed as if they were the round's."""
    acceptor, rows, drafts = set_up(0.5, torch.full((ROWS,), DRAFTS))
    with Launches() as alone:
        Told().accept(torch.zeros(1), drafts)
    with Launches() as both:
        acceptor.accept(torch.zeros(1), drafts, rows, rows.positions, torch.zeros(ROWS, dtype=torch.int64))
    assert 0 < both.count - alone.count < 12


def test_expected_tokens() -> None:
    assert [expected_tokens(0.5, drafts) for drafts in (0, 1, 2)] == [1.0, 1.5, 1.75]
    assert expected_tokens(1.0, 7) == 8.0


def programs() -> int:
    """How many there are, with what looks into them; those of other tests among them."""
    gc.collect()
    return sum(type(each) in (DeviceProgram, LogitsTap) for each in gc.get_objects())


def test_figures_at_chosen_acceptances(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "bench engine --device cpu --spec mtp --draft-tokens 3 --max-concurrency 2 --max-context 512"
    cases = "--kv-capacity 1024 --batches 2 --contexts 32 --prompts 48 --rounds 4 --prefills 1"
    acceptances = ["--synthetic-acceptance", "0,1"]
    before = programs()
    code = main([*words.split(), *cases.split(), *acceptances, "--output", str(tmp_path)])
    said = capsys.readouterr()
    assert code == 0, said
    (run,) = load(sorted(tmp_path.iterdir()))
    drafted = [each for each in run.figures if each.case == "decode"]
    assert [(each.draft_tokens, each.acceptance, each.tokens) for each in drafted] == [(3, 0.0, 2.0), (3, 1.0, 8.0)]
    assert "1.00 of 4 tokens" in said.out and "4.00 of 4 tokens" in said.out
    counts = [each.speculation for each in drafted]
    assert all(each is not None and (each.rounds, each.drafted_tokens) == (8, 24) for each in counts)
    assert [each.accepted_per_position for each in counts if each is not None] == [(0, 0, 0), (8, 8, 8)]
    assert "kept 0/0/0 %" in said.out and "kept 100/100/100 %" in said.out
    assert run.figures[-1].case == "prefill" and run.figures[-1].speculation is None
    # The next row of a campaign has the whole device: nothing holds either of the two programs.
    assert programs() <= before


@pytest.mark.parametrize("words", [["0.5"], ["--spec", "mtp", "1.5"], ["--spec", "mtp", "x"]])
def test_acceptances_that_make_no_sense_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "engine", *words[:-1], "--synthetic-acceptance", words[-1]]) == 2
    assert "--synthetic-acceptance" in capsys.readouterr().err
