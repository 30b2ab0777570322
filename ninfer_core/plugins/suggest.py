"""Near misses for names that were typed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def suggestion(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the nearest known word, or nothing when none is near."""
    by_form = {_form(name): name for name in sorted(known)}
    near = difflib.get_close_matches(_form(word), by_form, n=1, cutoff=0.6)
    return f"; did you mean '{by_form[near[0]]}'?" if near else ""


def _form(word: str) -> str:
    # 'fp-8', 'FP8' and 'fp_8' are one word to whoever typed them.
    return word.lower().replace("-", "").replace("_", "")
