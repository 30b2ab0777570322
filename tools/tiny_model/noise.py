"""Whether two counts of right answers differ by more than chance, and how sure one count is."""

from __future__ import annotations

import math
from collections.abc import Sequence

Count = tuple[int, int]
"""(right, asked)"""

NORMAL_95 = 1.959964
# Tables whose chance is equal but for rounding are equally unlikely.
ROUNDING = 1 + 1e-9


def interval(count: Count) -> tuple[float, float]:
    """Wilson's 95 % interval of the share, which also holds near 1, where the usual one ends beyond it."""
    right, asked = count
    share, square = right / asked, NORMAL_95**2
    middle = (share + square / (2 * asked)) / (1 + square / asked)
    spread = NORMAL_95 * math.sqrt(share * (1 - share) / asked + square / (4 * asked**2)) / (1 + square / asked)
    return max(0.0, middle - spread), min(1.0, middle + spread)


def pooled_error(one: Count, other: Count) -> float:
    """Standard error of the difference of two shares when both come from the same chance."""
    share = (one[0] + other[0]) / (one[1] + other[1])
    return math.sqrt(share * (1 - share) * (1 / one[1] + 1 / other[1]))


def difference_chance(one: Count, other: Count) -> float:
    """Fisher's exact two-sided test: the chance of two counts at least as far apart as these, given their sum.

    Most shares are near 1, where the normal approximation of the two-proportion test finds too much.
    """
    ways = _ways(one[1], other[1], one[0] + other[0])
    seen = math.comb(one[1], one[0]) * math.comb(other[1], other[0])
    return min(1.0, sum(way for way in ways if way <= seen * ROUNDING) / sum(ways))


def least_chance(one: Count, other: Count) -> float:
    """What `difference_chance` would be, had all that were wrong been wrong in one of the two."""
    ways = _ways(one[1], other[1], one[0] + other[0])
    least = min(ways)
    return sum(way for way in ways if way <= least * ROUNDING) / sum(ways)


def _ways(asked: int, other_asked: int, right: int) -> list[int]:
    """Of each split of the right answers, to how many choices of questions it belongs."""
    splits = range(max(0, right - other_asked), min(asked, right) + 1)
    return [math.comb(asked, first) * math.comb(other_asked, right - first) for first in splits]


def shift_chance(pairs: Sequence[tuple[Count, Count]]) -> float:
    """Cochran, Mantel and Haenszel's test over skills, with continuity correction: the chance that one run is better or
    worse throughout, though no single skill shows it."""
    excess = variance = 0.0
    for one, other in pairs:
        asked, right = one[1] + other[1], one[0] + other[0]
        excess += one[0] - right * one[1] / asked
        variance += right * (asked - right) * one[1] * other[1] / (asked**2 * (asked - 1))
    if not variance:
        return 1.0
    return normal_chance(max(0.0, abs(excess) - 0.5) / math.sqrt(variance))


def mean_and_error(tokens: Sequence[int], rounds: Sequence[int]) -> tuple[float, float]:
    """Tokens per round over all prompts, and its standard error, prompts taken as drawn at random: rounds of one answer
    are not independent."""
    mean, count = sum(tokens) / sum(rounds), len(rounds)
    spread = sum((made - mean * used) ** 2 for made, used in zip(tokens, rounds, strict=True))
    error = math.sqrt(spread * count / (count - 1)) / sum(rounds) if count > 1 else math.inf
    return round(mean, 3), round(error, 3)


def normal_chance(deviations: float) -> float:
    """Two-sided, of a value that many standard errors from zero."""
    return math.erfc(abs(deviations) / math.sqrt(2))


def holm(chances: Sequence[float]) -> list[float]:
    """Each chance raised so that all below a level together are wrong with at most that level, however they depend on
    one another (Holm's step-down)."""
    raised = [0.0] * len(chances)
    least = 0.0
    for rank, index in enumerate(sorted(range(len(chances)), key=chances.__getitem__)):
        least = max(least, min(1.0, (len(chances) - rank) * chances[index]))
        raised[index] = least
    return raised
