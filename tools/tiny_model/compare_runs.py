"""Compares the scores of two runs of the same scripts and says whether they differ by more than chance.

`python -m tools.tiny_model.compare_runs results/eval.json again.json`; exits with 1 when they do, with 2 when there is
nothing that can be compared.

Every skill at every effort is one hypothesis, "both runs answer it with the same chance", tested by Fisher's exact
test. A second group asks whether one run is better throughout: over all skills of an effort (Cochran, Mantel,
Haenszel), for a loss too small to show in one, and in tokens per round (by their standard errors). Holm's correction
over each group, and half of the level for each, keep the chance of calling two equal runs different, anywhere, at the
level (5 %); no independence is needed, and efforts share their prompts. Skills with so few wrong answers in both runs
together that no split of them could count (six of 400) are not counted by the correction, as Tarone showed. The
price: against 200 right answers of 200, ten wrong ones are called different, eight are not. The raw chances are
printed too.

Both runs answer the same prompts, so that equal models are closer than the tests assume. How far training itself
scatters the tests do not know: a difference beyond noise says that the models differ, not that a script did.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tools.tiny_model.noise import (
    Count,
    difference_chance,
    holm,
    least_chance,
    normal_chance,
    pooled_error,
    shift_chance,
)
from tools.tiny_model.scores import Counts, Rates, ScoreFile, UnreadableScores, read_scores

T = TypeVar("T")
Table = dict[str, dict[str, T]]

LEVEL = 0.05
GROUPS = 2
ALL_SKILLS = "all skills"
TITLE = ("what", "before", "after", "difference", "standard error", "chance", "corrected")


class NothingToCompare(Exception):
    """Two files that say nothing of the same thing, or one that lacks what the other has."""

    code = "scores_apart"


@dataclass(frozen=True, slots=True)
class Difference:
    """`chance` is that of equal runs being this far apart; `before` and `after` in percent, or in tokens per round."""

    name: str
    before: float
    after: float
    error: float
    chance: float
    least: float = 0.0
    """The least that `chance` could have been, given how much was wrong in both runs together."""

    def row(self, corrected: float) -> tuple[str, ...]:
        shown = f"{self.before:.2f}", f"{self.after:.2f}", f"{self.after - self.before:+.2f}", f"{self.error:.2f}"
        return (self.name, *shown, f"{self.chance:.4f}", f"{corrected:.4f}")


Compared = tuple[Difference, float]


def of_skills(before: Counts, after: Counts) -> Iterator[Difference]:
    for effort, skills in before.items():
        for skill, one in skills.items():
            other = after[effort][skill]
            yield Difference(
                f"{effort}, {skill}", percent([one]), percent([other]), 100 * pooled_error(one, other),
                difference_chance(one, other), least_chance(one, other),
            )  # fmt: skip


def of_efforts(before: Counts, after: Counts) -> Iterator[Difference]:
    for effort, skills in before.items():
        pairs = [(count, after[effort][skill]) for skill, count in skills.items()]
        ones, others = zip(*pairs, strict=True)
        yield Difference(
            f"{effort}, {ALL_SKILLS}", percent(ones), percent(others), 100 * pooled_error(total(ones), total(others)),
            shift_chance(pairs),
        )  # fmt: skip


def total(counts: Sequence[Count]) -> Count:
    return sum(right for right, _ in counts), sum(asked for _, asked in counts)


def percent(counts: Sequence[Count]) -> float:
    right, asked = total(counts)
    return 100 * right / asked


def of_rates(before: Rates, after: Rates) -> Iterator[Difference]:
    for drafter, kinds in before.items():
        for kind, (one, one_error) in kinds.items():
            other, other_error = after[drafter][kind]
            error = math.hypot(one_error, other_error)
            apart = abs(other - one) / error if error else math.inf if other != one else 0.0
            yield Difference(f"{drafter}, {kind}", one, other, error, normal_chance(apart))


def compare(before: ScoreFile, after: ScoreFile, *, level: float = LEVEL, common: bool = False) -> list[Compared]:
    """Each difference with its corrected chance; `common`: of what both files have. Raises NothingToCompare."""
    counts, rates = (before.counts(), after.counts()), (before.rates(), after.rates())
    if common:
        counts, rates = shared(*counts), shared(*rates)
    left_out = sorted(set.symmetric_difference(*map(names, counts)) | set.symmetric_difference(*map(names, rates)))
    if left_out:
        raise NothingToCompare(f"only one of the files has {'; '.join(left_out)}: --common compares the others")
    groups = [list(of_skills(*counts)), [*of_efforts(*counts), *of_rates(*rates)]]
    if not any(groups):
        raise NothingToCompare("the files have no score in common")
    return [pair for group in groups for pair in corrected(group, level)]


def corrected(group: list[Difference], level: float) -> Iterator[Compared]:
    counted = [each for each in group if each.least <= level / GROUPS]
    raised = dict(zip((each.name for each in counted), holm([each.chance for each in counted]), strict=True))
    for each in group:
        yield each, min(1.0, GROUPS * raised.get(each.name, 1.0))


def names(table: Table[T]) -> set[str]:
    return {f"{group}, {name}" for group, inner in table.items() for name in inner}


def shared(one: Table[T], other: Table[T]) -> tuple[Table[T], Table[T]]:
    """Both without what only one of them has."""
    kept = names(one) & names(other)

    def cut(table: Table[T]) -> Table[T]:
        left = {
            group: {name: value for name, value in inner.items() if f"{group}, {name}" in kept}
            for group, inner in table.items()
        }
        return {group: inner for group, inner in left.items() if inner}

    return cut(one), cut(other)


def table(compared: list[Compared]) -> str:
    lines = [TITLE, *(difference.row(chance) for difference, chance in compared)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    first, *numbers = widths
    return "\n".join(
        "  ".join((row[0].ljust(first), *(cell.rjust(width) for cell, width in zip(row[1:], numbers, strict=True))))
        for row in lines
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--common", action="store_true", help="compare what both files have, whatever else one has")
    parser.add_argument("--level", type=float, default=LEVEL, help="chance of calling two equal runs different")
    arguments = parser.parse_args()
    try:
        files = read_scores(arguments.before), read_scores(arguments.after)
        compared = compare(*files, level=arguments.level, common=arguments.common)
    except (NothingToCompare, UnreadableScores) as error:
        print(f"{error.code}: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    print(table(compared))
    apart = [difference.name for difference, chance in compared if chance < arguments.level]
    print(f"beyond noise: {'; '.join(apart)}" if apart else f"all {len(compared)} within noise")
    raise SystemExit(1 if apart else 0)


if __name__ == "__main__":
    main()
