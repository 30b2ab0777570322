"""The score tables of the model card, from the committed score files: `python -m tools.tiny_model.card` prints them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tools.tiny_model.noise import interval
from tools.tiny_model.scores import Counts, Rates, read_scores

RESULTS = Path(__file__).with_name("results")
NEWCOMERS = "newcomers"
COLUMNS = ("xhigh", "medium", "low", "off")
KINDS = ("structured greedy", "structured T=1", "free greedy", "free T=1")
WANTED = 0.95
"""Share of the prompts of a skill that should be right."""


def score_lines(counts: Counts, experts: Counts) -> Iterator[str]:
    """Percent right by skill, the last column for the small MoE."""
    columns = [*(counts[effort] for effort in COLUMNS), experts["xhigh"]]
    for skill in counts["xhigh"]:
        if skill != NEWCOMERS:
            given = (column.get(skill) for column in columns)
            cells = (f"{100 * count[0] / count[1]:.1f}" if count else "" for count in given)
            yield f"| {skill} | {' | '.join(cells)} |"


def missed_lines(counts: Counts) -> Iterator[str]:
    """What is below the wanted share, with the interval in which the true share lies 19 times in 20."""
    for effort in COLUMNS:
        for skill, (right, asked) in counts[effort].items():
            if right < WANTED * asked:
                low, high = interval((right, asked))
                share = 100 * right / asked
                yield f"| {skill}, {effort} | {right} of {asked} | {share:.1f} | {100 * low:.1f} to {100 * high:.1f} |"


def rate_lines(rates: Rates) -> Iterator[str]:
    """Tokens per round with their standard errors."""
    for drafter, kinds in rates.items():
        cells = (f"{mean:.2f} ({error:.2f})" for mean, error in (kinds[kind] for kind in KINDS))
        yield f"| {drafter} | {' | '.join(cells)} |"


def main() -> None:
    counts, experts = (read_scores(RESULTS / name).counts() for name in ("eval.json", "eval-moe.json"))
    rates = read_scores(RESULTS / "drafts.json").rates()
    print(*score_lines(counts, experts), "", *missed_lines(counts), "", *rate_lines(rates), sep="\n")


if __name__ == "__main__":
    main()
