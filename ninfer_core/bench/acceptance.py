"""What a round with drafts gives at an acceptance, and from which one on it pays. No torch."""

from __future__ import annotations


def expected_tokens(probability: float, draft_tokens: int) -> float:
    """Tokens that a round gives on average: 1 + P + P² + ... + P^K."""
    return sum(probability**kept for kept in range(draft_tokens + 1))


def break_even(ratio: float, draft_tokens: int) -> float | None:
    """The acceptance at which a round that takes `ratio` steps gives as many tokens a second; None where none does."""
    if ratio > 1 + draft_tokens:
        return None
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if expected_tokens(middle, draft_tokens) >= ratio else (middle, high)
    return high
