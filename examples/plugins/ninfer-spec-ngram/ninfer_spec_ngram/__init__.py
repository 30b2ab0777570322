"""Drafts without a model: the tokens that followed when the last few tokens stood in the text before.

Runs on the host, between rounds. It costs a few dictionary look-ups for each token and drafts nothing where nothing
comes back: edits of code, quotations and forms are drafted a round at a time, and other texts lose little.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ninfer_core.api import MOST_DRAFT_TOKENS, DrafterNeeds, DraftTokens, hookimpl

if TYPE_CHECKING:
    import torch

    from ninfer_core.api import ArtifactHeader, BuildShape, Geometry, HostDrafter, Model, WeightSource

LONGEST, SHORTEST = 4, 2
"""Tokens that have to agree, the most first: more of them are right more often, fewer are found more often."""


class NgramDrafter:
    """Implements HostDrafter."""

    def __init__(self) -> None:
        self._texts: dict[int, _Text] = {}

    def open(self, row: int) -> None:
        self._texts[row] = _Text()

    def extend(self, row: int, token_ids: Sequence[int]) -> None:
        self._texts[row].extend(token_ids)

    def propose(self, row: int, most: int) -> Sequence[int]:
        return self._texts[row].continuation(most)

    def close(self, row: int) -> None:
        del self._texts[row]


class _Text:
    """A text, and behind which place each of its n-grams stood last, the one at its very end left out."""

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._ends: dict[tuple[int, ...], int] = {}

    def extend(self, token_ids: Sequence[int]) -> None:
        for token_id in token_ids:
            end = len(self._tokens)
            for length in range(SHORTEST, min(LONGEST, end) + 1):
                self._ends[tuple(self._tokens[end - length :])] = end
            self._tokens.append(token_id)

    def continuation(self, most: int) -> Sequence[int]:
        """What came after the longest n-gram that the text ends in and that stood somewhere before. A match that
        reaches up to the end goes on with itself, as a repetition does."""
        for length in range(min(LONGEST, len(self._tokens)), SHORTEST - 1, -1):
            start = self._ends.get(tuple(self._tokens[-length:]))
            if start is not None:
                period = len(self._tokens) - start
                return [self._tokens[start + place % period] for place in range(most)]
        return ()


@hookimpl
def ninfer_spec_draft_tokens(header: ArtifactHeader) -> DraftTokens:
    return DraftTokens(most=MOST_DRAFT_TOKENS, default=7)


@hookimpl
def ninfer_spec_needs(header: ArtifactHeader, geometry: Geometry, shape: BuildShape) -> DrafterNeeds:
    return DrafterNeeds(runs_on="host")


@hookimpl
def ninfer_spec_build(
    header: ArtifactHeader, shape: BuildShape, model: Model, weights: WeightSource, device: torch.device
) -> HostDrafter:
    return NgramDrafter()
