"""A campaign as its file says it: rows that are measured, and what they have to reach.

A row is a command line of `ninfer bench engine`. What a row has to reach is said beside it, so that the table of a
campaign needs nothing but the file and the results.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from ninfer_core.api.errors import StartFailed

Name = Annotated[str, msgspec.Meta(pattern="^[a-z0-9][a-z0-9.-]*$", max_length=60)]
Positive = Annotated[float, msgspec.Meta(gt=0)]


class Goal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of a step of `rows` rows over `tokens` tokens of context, or of a prefill of `tokens` tokens in the best chunk:
    what must be reached, what is aimed at, and what somebody else needs, who is called `peer` in the campaign."""

    case: Literal["decode", "prefill"]
    tokens: int
    rows: int = 1
    reach_ms: Positive | None = None
    aim_ms: Positive | None = None
    peer_ms: Positive | None = None


class RoundGoal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A round with drafts of `rows` rows may be `reach` times a step of the same rows without."""

    rows: int
    reach: Positive


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`run` are words of the command; where those of all rows say something else, these count. `seconds` is about what
    they take. A row with drafts names in `steps` the row whose steps its rounds are held against."""

    name: Name
    run: str
    seconds: Positive
    goals: tuple[Goal, ...] = ()
    steps: str = ""
    rounds: tuple[RoundGoal, ...] = ()


class Bars(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every row has to reach: seconds of a start, share of the time that the device waits for the host, share of
    the copy rate at which attention reads a long context."""

    start_seconds: Positive | None = None
    host_share: Positive | None = None
    attention_share: Positive | None = None


class Campaign(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rows in the order in which they are worth their time. `common` are words of all of them."""

    row: tuple[Row, ...]
    common: str = ""
    peer: str = ""
    bars: Bars = Bars()

    def words(self, row: Row) -> str:
        return " ".join(f"{self.common} {row.run}".split())

    def chosen(self, names: tuple[str, ...]) -> tuple[Row, ...]:
        """Those of these names, in the order of the campaign; all of them for none. Raises StartFailed for a name that
        it does not have."""
        known = [row.name for row in self.row]
        if unknown := sorted(set(names) - set(known)):
            raise StartFailed(f"the campaign has no row {', '.join(unknown)}; it has {', '.join(known)}")
        return tuple(row for row in self.row if not names or row.name in names)


def read_campaign(path: Path) -> Campaign:
    """Raises StartFailed naming what is wrong in the file."""
    try:
        campaign = msgspec.convert(tomllib.loads(path.read_text()), Campaign)
    except (OSError, ValueError, RecursionError) as error:
        raise StartFailed(f"{path} is no campaign: {error}") from error
    names = [row.name for row in campaign.row]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise StartFailed(f"{path} is no campaign: it has {', '.join(twice)} more than once")
    if lost := sorted({row.steps for row in campaign.row if row.steps} - set(names)):
        raise StartFailed(f"{path} is no campaign: steps of {', '.join(lost)} are asked for, which it does not have")
    return campaign
