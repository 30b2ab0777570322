"""What the host knows of an open row."""

from __future__ import annotations

from dataclasses import dataclass

from ninfer_core.program.contract import RowSetup


@dataclass(slots=True)
class Row:
    """The host's copy of what it needs to know. `length` counts committed tokens in the cache, and is the most that
    they may be while a round is not collected behind which another one was launched; `in_flight` is whether a decode
    round has left columns that are still to be folded; `offered` is how many candidates the last unit gave, or may
    have given until it is collected; `candidates` are those; `forced` is whether what it left as the anchor was not
    chosen but put there. `uncollected` are units of the row that yield candidates, and `assumed` is how many of the
    older one's the newer has been told to take at most."""

    setup: RowSetup
    pages: tuple[int, ...]
    length: int = 0
    in_flight: bool = False
    offered: int = 0
    forced: bool = False
    candidates: tuple[int, ...] = ()
    uncollected: int = 0
    assumed: int = 0

    def take(self, accepted: int | None) -> tuple[int, int]:
        """Say how many candidates are taken, None for all that the row has room for: -> those to count, and the
        columns to fold for them, each at most."""
        if accepted is None:
            assert self.in_flight and self.uncollected == 1, f"all of {self.uncollected} units that nobody has seen"
            accepted = self.assumed = min(self.offered, self.room)
            assert accepted, f"{self.length} of {self.setup.reserved_tokens} tokens and no room for another round"
        else:
            assert not self.uncollected, f"N = {accepted} of candidates that nobody has seen"
            assert 1 <= accepted <= self.offered, f"N = {accepted} of {self.offered} candidates"
        counted = 0 if self.forced else accepted
        folded = accepted if self.in_flight else 0
        self.length += folded
        self.forced = False
        return counted, folded

    @property
    def room(self) -> int:
        """Columns that can be folded before only the last token of the reservation is left, whose column is never run:
        so a round of a row that has ended meanwhile reaches no further than that of a row that goes on."""
        return self.setup.reserved_tokens - 1 - self.length

    def launched(self, offered: int) -> None:
        """A unit that offers up to so many candidates."""
        self.offered = offered
        self.uncollected += 1

    def collected(self, candidates: tuple[int, ...]) -> None:
        """The older one of the uncollected units has yielded these."""
        self.uncollected -= 1
        if self.uncollected:
            self.length += min(len(candidates), self.assumed) - self.assumed
        else:
            # A round whose kernels are only compiled gives nothing, and the next one shall follow.
            self.candidates, self.offered = candidates, max(1, len(candidates))
