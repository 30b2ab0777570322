"""The stages that the shipped weights came from, as they were run: data, sizes and counts of steps.

A stage ends after its steps, on any machine. The shipped run was ended by a clock in three of them; the counts here are
those that it reached.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tools.tiny_model.template import ASSETS


@dataclass(frozen=True, slots=True)
class Stage:
    """One call of `train.py`. A step has `rows` packed rows of `length` tokens, or an eighth, eight times as long."""

    steps: int
    seed: int
    follows: str = ""
    """The stage whose weights it goes on from."""
    config: Path = ASSETS / "config.json"
    rows: int = 64
    length: int = 1024
    chunk: int = 32
    muon_rate: float = 0.02
    adam_rate: float = 0.003
    long_every: int = 8
    """One shard in so many has long dialogues; 0: none."""
    repeat: bool = True
    """Every batch is used twice: the generator is slower than the GPU."""
    last: bool = False
    """Shares of the skills as at the end: what is learned late comes more often."""
    floor: float = 0.0
    """Share of the peak rates that the last step still has: 0 where no stage follows."""

    @property
    def cooling(self) -> float:
        """The part of the steps over which the rates fall."""
        return 0.3 if self.floor else 0.6


@dataclass(frozen=True, slots=True)
class DrafterStage:
    """One call of `train_drafters.py`: MTP and DFlash together, then what DFlash2 adds."""

    first_steps: int
    second_steps: int
    seed: int
    config: Path = ASSETS / "config.json"
    rows: int = 32
    length: int = 1024
    chunk: int = 32
    muon_rate: float = 0.02
    adam_rate: float = 0.003
    cooling: float = 0.7


STAGES = {
    "first": Stage(steps=5200, seed=1, floor=0.3),
    "second": Stage(steps=5904, seed=2, follows="first", last=True),
    # The shipped one is older than some of the lessons: run today, it learns from other dialogues.
    "moe": Stage(steps=5651, seed=21, config=ASSETS / "moe" / "config.json"),
}
DRAFTERS = DrafterStage(first_steps=888, second_steps=381, seed=11)
