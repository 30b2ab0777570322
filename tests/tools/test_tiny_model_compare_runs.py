"""Two runs compared: what is beyond noise is called so and nothing else; files that say other things are refused."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from tools.tiny_model import card, compare_runs
from tools.tiny_model.compare_runs import NothingToCompare, compare, main
from tools.tiny_model.noise import difference_chance, holm, interval, least_chance, pooled_error, shift_chance
from tools.tiny_model.scores import Counts, Measurement, Rates, ScoreFile, UnreadableScores, read_scores, write_scores

FACTS = {"date": "2026-12-01", "engine": "abc", "device": "CPU", "dtype": "float32"}


def measured(scores: Counts, rates: Rates | None = None) -> Measurement:
    return Measurement(**FACTS, scores=scores, tokens_per_round=rates or {})


def scores(counts: Counts, rates: Rates | None = None) -> ScoreFile:
    return ScoreFile(measurements=(measured(counts, rates),))


def even(right: int, skills: int = 20) -> Counts:
    return {"low": {f"skill {number}": (right, 200) for number in range(skills)}}


def apart(before: ScoreFile, after: ScoreFile) -> list[str]:
    return [difference.name for difference, chance in compare(before, after) if chance < compare_runs.LEVEL]


def test_tests_give_the_published_values() -> None:
    # Fisher's tea: 3 of 4 and 1 of 4. Wilson (1927): 0 of 10 and 8 of 10.
    assert difference_chance((3, 4), (1, 4)) == pytest.approx(34 / 70)
    assert least_chance((3, 4), (1, 4)) == pytest.approx(2 / 70)
    assert difference_chance((200, 200), (200, 200)) == 1
    assert interval((0, 10)) == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert interval((8, 10)) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert pooled_error((90, 100), (80, 100)) == pytest.approx((0.85 * 0.15 / 50) ** 0.5)
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


def test_a_loss_in_one_skill_and_a_small_one_in_all_are_beyond_noise() -> None:
    one = even(199)
    one["low"]["skill 3"] = (170, 200)
    assert apart(scores(even(199)), scores(one)) == ["low, skill 3", "low, all skills"]
    assert apart(scores(even(197)), scores(even(193))) == ["low, all skills"]
    assert shift_chance([((197, 200), (193, 200))] * 20) < 1e-3
    assert shift_chance([((200, 200), (200, 200))]) == 1


def test_small_differences_are_noise() -> None:
    one = even(199)
    one["low"]["skill 3"], one["low"]["skill 4"] = (195, 200), (200, 200)
    assert apart(scores(even(199)), scores(one)) == []


def test_equal_models_are_called_different_no_more_often_than_said() -> None:
    rng = random.Random(5)

    def run() -> ScoreFile:
        counts = {f"skill {each}": (sum(rng.random() < 0.9 for _ in range(40)), 40) for each in range(6)}
        return scores({"low": counts})

    # Three standard errors above 5 % of 200 pairs.
    assert sum(bool(apart(run(), run())) for _ in range(200)) <= 19


def test_tokens_per_round_are_compared_by_their_errors() -> None:
    before = scores({}, {"mtp": {"free": (2.5, 0.1), "structured": (3.7, 0.02)}})
    assert apart(before, scores({}, {"mtp": {"free": (2.7, 0.1), "structured": (3.7, 0.02)}})) == []
    assert apart(before, scores({}, {"mtp": {"free": (2.7, 0.1), "structured": (3.5, 0.02)}})) == ["mtp, structured"]


def test_what_only_one_file_has_is_refused_or_left_out() -> None:
    before, after = scores({"low": {"code": (9, 10), "json": (9, 10)}}), scores({"low": {"code": (8, 10)}})
    with pytest.raises(NothingToCompare, match="low, json: --common"):
        compare(before, after)
    assert [difference.name for difference, _ in compare(before, after, common=True)] == [
        "low, code",
        "low, all skills",
    ]
    with pytest.raises(NothingToCompare, match="no score in common"):
        compare(before, scores({"off": {"code": (8, 10)}}), common=True)


def test_later_measurements_replace_earlier_ones_of_the_same_thing(tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    write_scores(path, measured({"low": {"code": (1, 2), "json": (2, 2)}}), measured({"low": {"code": (5, 6)}}))
    assert read_scores(path).counts() == {"low": {"code": (5, 6), "json": (2, 2)}}
    assert '"code": [5, 6]' in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["{", '{"identity": 1}', '{"measurements": [{"date": ""}]}'])
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "scores.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UnreadableScores, match="no score file"):
        read_scores(path)


def test_more_right_than_asked_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "scores.json"
    write_scores(path, measured({"low": {"code": (1, 2)}}))
    path.write_text(path.read_text(encoding="utf-8").replace("[1, 2]", "[3, 2]"), encoding="utf-8")
    with pytest.raises(UnreadableScores, match="low, code: 3 right of 2"):
        read_scores(path)


@pytest.mark.parametrize(("right", "code", "said"), [(199, 0, "within noise"), (150, 1, "beyond noise: low, skill 0")])
def test_the_command_says_which_and_ends_accordingly(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    right: int,
    code: int,
    said: str,
) -> None:
    paths = [tmp_path / "before.json", tmp_path / "after.json"]
    for path, counts in zip(paths, (even(199, 2), even(right, 2)), strict=True):
        write_scores(path, measured(counts))
    monkeypatch.setattr(sys, "argv", ["compare_runs", *map(str, paths)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    assert said in capsys.readouterr().out


def test_the_card_has_the_tables_of_the_committed_scores() -> None:
    text = (card.RESULTS.parent / "README.md").read_text(encoding="utf-8")
    counts = read_scores(card.RESULTS / "eval.json").counts()
    experts = read_scores(card.RESULTS / "eval-moe.json").counts()
    rates = read_scores(card.RESULTS / "drafts.json").rates()
    tables = {
        "| skill | xhigh ": card.score_lines(counts, experts),
        "| skill and effort ": card.missed_lines(counts),
        "| drafter in the engine ": card.rate_lines(rates),
    }
    for title, lines in tables.items():
        table = text[text.index(title) :].split("\n\n")[0]
        assert table.splitlines()[2:] == list(lines)


def test_all_committed_results_are_score_files() -> None:
    for path in card.RESULTS.glob("*.json"):
        found = read_scores(path)
        assert found.counts() or found.rates()
