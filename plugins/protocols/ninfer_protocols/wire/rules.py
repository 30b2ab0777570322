"""Fields with one neutral value, or none: a row for each says what is accepted and what a refusal says.

A refusal names the field and the guarantee that this server does not give (contract CHAT-26).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ninfer_protocols.wire.errors import invalid_value

MAX_KEY_CHARACTERS = 64
"""Contract ERR-7."""


class Rule(NamedTuple):
    """`accepts` decides about a value that is not null; `reason` follows the field's name in the refusal."""

    field: str
    accepts: Callable[[Any], bool]
    reason: str
    code: str = "invalid_value"


def check_rules(rules: Iterable[Rule], body: dict[str, Any]) -> None:
    """Raise a RequestError for the first field of `rules` that asks for what is not given. Null says nothing."""
    for rule in rules:
        value = body.get(rule.field)
        if value is not None and not rule.accepts(value):
            raise invalid_value(rule.field, rule.reason, code=rule.code)


def is_one_of(*neutral: Any) -> Callable[[Any], bool]:
    """Equality that keeps JSON's types apart: `true` is not 1."""
    return lambda value: any(value == known and isinstance(value, bool) is isinstance(known, bool) for known in neutral)


def never(value: Any) -> bool:
    return False


def is_empty(value: Any) -> bool:
    return isinstance(value, list | dict) and not value


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_key(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_KEY_CHARACTERS


def is_object(value: Any) -> bool:
    return isinstance(value, dict)


def is_cache_options(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.get("mode") in (None, "implicit", "explicit")
        and value.get("ttl") in (None, "30m")
    )


CACHE_AND_CLIENT_HINTS: tuple[Rule, ...] = (
    Rule("user", is_text, "must be a string"),
    Rule("safety_identifier", is_key, f"must be a string of at most {MAX_KEY_CHARACTERS} characters"),
    Rule("prompt_cache_key", is_key, f"must be a string of at most {MAX_KEY_CHARACTERS} characters"),
    Rule("prompt_cache_retention", is_one_of("in_memory", "24h"), "must be 'in_memory' or '24h'"),
    Rule(
        "prompt_cache_options",
        is_cache_options,
        "must be an object with 'mode' implicit or explicit, and 'ttl' 30m where given",
    ),
)
"""Checked for their form, without effect on the answer (contract ERR-7, PCACHE-8)."""
