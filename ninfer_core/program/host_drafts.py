"""The host's part of drafting: a drafter on the host is told every sequence, and asked before a round is launched."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import islice
from numbers import Integral
from typing import Protocol

from ninfer_core.api.speculative import HostDrafter
from ninfer_core.plugins.loading import failures_of


class HostDrafts(Protocol):
    """What a program tells of its rows, and the numbers of a row that go to the device with a round."""

    def open(self, row: int) -> None: ...

    def extend(self, row: int, token_ids: Sequence[int]) -> None: ...

    def propose(self, row: int) -> tuple[int, ...]: ...

    def close(self, row: int) -> None: ...


class NoHostDrafts:
    """Nobody drafts on the host."""

    def open(self, row: int) -> None:
        return

    def extend(self, row: int, token_ids: Sequence[int]) -> None:
        return

    def propose(self, row: int) -> tuple[int, ...]:
        return ()

    def close(self, row: int) -> None:
        return


class AskedHostDrafts:
    """Asks a drafter that messages call `label`: up to `draft_tokens` tokens below `token_domain`, of which those from
    the first on that is none are left out."""

    def __init__(self, drafter: HostDrafter, label: str, draft_tokens: int, token_domain: int) -> None:
        self._drafter = drafter
        self._label = label
        self._draft_tokens = draft_tokens
        self._token_domain = token_domain

    def open(self, row: int) -> None:
        with self._failures("open"):
            self._drafter.open(row)

    def extend(self, row: int, token_ids: Sequence[int]) -> None:
        if token_ids:
            with self._failures("extend"):
                self._drafter.extend(row, token_ids)

    def propose(self, row: int) -> tuple[int, ...]:
        """-> how many, and the drafts themselves, filled up with zeros."""
        with self._failures("propose"):
            proposed = list(islice(self._drafter.propose(row, self._draft_tokens), self._draft_tokens))
        drafts: list[int] = []
        for token_id in proposed:
            # Integers of other libraries are tokens as well, truth values are not.
            if not isinstance(token_id, Integral) or isinstance(token_id, bool):
                break
            if not 0 <= token_id < self._token_domain:
                break
            drafts.append(int(token_id))
        return (len(drafts), *drafts, *(0 for _ in range(self._draft_tokens - len(drafts))))

    def close(self, row: int) -> None:
        with self._failures("close"):
            self._drafter.close(row)

    def _failures(self, method: str) -> AbstractContextManager[None]:
        return failures_of(self._label, f"its drafter's {method}")
