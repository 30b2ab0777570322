"""Score files: what was right of what was asked, by effort and skill, and tokens per round, with what measured them.

A file is a list of measurements, each with its facts. A later one replaces what an earlier one says of the same thing,
so a long measurement can be made in parts.
"""

from __future__ import annotations

import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import msgspec

Counts = dict[str, dict[str, tuple[int, int]]]
"""By effort and skill: (right, asked)."""
Rates = dict[str, dict[str, tuple[float, float]]]
"""By drafter and kind of text: (tokens per round, its standard error over the prompts)."""


class UnreadableScores(Exception):
    """A score file that is missing or is none."""

    code = "scores_unreadable"


class Measurement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    date: str
    engine: str
    """What answered: the commit of the engine and its plan digest, or the training code."""
    device: str
    dtype: str
    scores: Counts = {}
    tokens_per_round: Rates = {}

    def __post_init__(self) -> None:
        for effort, skills in self.scores.items():
            for skill, (right, asked) in skills.items():
                if not 0 <= right <= asked or not asked:
                    raise ValueError(f"{effort}, {skill}: {right} right of {asked}")


class ScoreFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    measurements: tuple[Measurement, ...] = ()

    def counts(self) -> Counts:
        joined: Counts = {}
        for measurement in self.measurements:
            for effort, skills in measurement.scores.items():
                joined.setdefault(effort, {}).update(skills)
        return joined

    def rates(self) -> Rates:
        joined: Rates = {}
        for measurement in self.measurements:
            for drafter, kinds in measurement.tokens_per_round.items():
                joined.setdefault(drafter, {}).update(kinds)
        return joined


def read_scores(path: Path) -> ScoreFile:
    """Raises UnreadableScores."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=ScoreFile)
    except (OSError, msgspec.DecodeError) as error:
        raise UnreadableScores(f"{path} is no score file: {error}; evaluate_engine --out writes them") from error


def write_scores(path: Path, *measurements: Measurement) -> None:
    text = msgspec.json.format(msgspec.json.encode(ScoreFile(measurements=measurements)), indent=1).decode()
    # Pairs on one line: a skill is a line.
    path.write_text(re.sub(r"\[\s+(\S+),\s+(\S+)\s+\]", r"[\1, \2]", text) + "\n", encoding="utf-8")


def of_training_code(
    device: str, dtype: str, *, scores: Counts | None = None, tokens_per_round: Rates | None = None
) -> Measurement:
    return Measurement(
        date=today(), engine=f"training code, {commit()}", device=device, dtype=dtype, scores=scores or {},
        tokens_per_round=tokens_per_round or {},
    )  # fmt: skip


def today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d")


def commit() -> str:
    """Of the files that run, with `-dirty` where some are changed."""
    command = ("git", "describe", "--always", "--dirty", "--exclude=*")
    found = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"
