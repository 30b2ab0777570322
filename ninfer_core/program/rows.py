"""What the host knows of an open row."""

from __future__ import annotations

from dataclasses import dataclass

from ninfer_core.program.contract import RowSetup


@dataclass(slots=True)
class Row:
    """The host's copy of what it needs to know. `length` counts committed tokens in the cache; `in_flight` is whether
    a decode round has left columns that are still to be folded; `offered` is how many candidates the last unit gave,
    or may have given until it is collected; `candidates` are those, where rounds may give several; `forced` is whether
    what it left as the anchor was not chosen but put there."""

    setup: RowSetup
    pages: tuple[int, ...]
    length: int = 0
    in_flight: bool = False
    offered: int = 0
    forced: bool = False
    candidates: tuple[int, ...] = ()

    def take(self, accepted: int) -> tuple[int, int]:
        """Say how many candidates are taken: -> those to count, and the columns to fold for them."""
        assert 1 <= accepted <= self.offered, f"N = {accepted} of {self.offered} candidates"
        counted = 0 if self.forced else accepted
        folded = accepted if self.in_flight else 0
        self.length += folded
        self.forced = False
        return counted, folded
