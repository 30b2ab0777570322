"""The list of tokens that a reduced head proposes from (`--lm-head-draft`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ninfer_core.api import TensorSpec

REDUCED_HEAD = "draft_head.token_ids"
"""int32 [rows]: the tokens a reduced head proposes from, the most frequent first. Its rows are those of the head."""


def reduced_head(stored: Mapping[str, TensorSpec]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The ids of the reduced head, as many as there are."""
    if REDUCED_HEAD in stored:
        shape = stored[REDUCED_HEAD].shape
        yield REDUCED_HEAD, shape if len(shape) == 1 else (0,)
