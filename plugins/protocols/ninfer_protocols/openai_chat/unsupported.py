"""Fields that have one neutral value, or none, in a table: what is accepted, and what a refusal says.

A refusal names the field and the guarantee that this server does not give (contract CHAT-26). Fields that are in no
table of this protocol are ignored (contract CHAT-30).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ninfer_protocols.wire.errors import invalid_value

_MAX_KEY_CHARACTERS = 64
_CONSTRAINED = "output is never constrained to a grammar or a schema here; describe the form in the prompt"


class Rule(NamedTuple):
    """`accepts` decides about a value that is not null; `reason` follows the field's name in the refusal."""

    field: str
    accepts: Callable[[Any], bool]
    reason: str
    code: str = "invalid_value"


def _is(*neutral: Any) -> Callable[[Any], bool]:
    """Equality that keeps JSON's types apart: `true` is not 1."""
    return lambda value: any(value == known and isinstance(value, bool) is isinstance(known, bool) for known in neutral)


def _never(value: Any) -> bool:
    return False


def _is_empty(value: Any) -> bool:
    return isinstance(value, list | dict) and not value


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_key(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _MAX_KEY_CHARACTERS


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_text_format(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") == "text"


def _is_zero_bias(value: Any) -> bool:
    return isinstance(value, dict) and all(_is(0)(bias) for bias in value.values())


def _is_text_only(value: Any) -> bool:
    return isinstance(value, list) and all(item == "text" for item in value)


def _is_all_null(value: Any) -> bool:
    return isinstance(value, dict) and all(member is None for member in value.values())


def _is_cache_options(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.get("mode") in (None, "implicit", "explicit")
        and value.get("ttl") in (None, "30m")
    )


RULES: tuple[Rule, ...] = (
    # Refused unless neutral (contract CHAT-12, CHAT-21 to 28, CHAT-33; codes of ERR-5).
    Rule("n", _is(1), "one answer is made for each request; only 1 is accepted", "n_not_supported"),
    Rule("modalities", _is_text_only, "answers are text; only ['text'] is accepted", "modality_not_supported"),
    Rule(
        "response_format",
        _is_text_format,
        f"{_CONSTRAINED}; only {{'type': 'text'}} is accepted",
        "structured_outputs_not_supported",
    ),
    Rule(
        "logit_bias",
        _is_zero_bias,
        "no token's probability can be shifted; only zeros are accepted",
        "logit_bias_not_supported",
    ),
    Rule(
        "logprobs", _is(False), "token probabilities are not returned; only false is accepted", "logprobs_not_supported"
    ),
    Rule("top_logprobs", _is(0), "token probabilities are not returned; only 0 is accepted", "logprobs_not_supported"),
    Rule("web_search_options", _never, "the server never searches the web", "web_search_not_supported"),
    Rule("moderation", _never, "no moderation runs on this server", "moderation_not_supported"),
    Rule(
        "verbosity",
        _is("medium"),
        "the length of answers cannot be steered; only 'medium' is accepted",
        "verbosity_not_supported",
    ),
    Rule("store", _is(False), "chat completions are not stored; only false is accepted", "store_not_supported"),
    Rule("functions", _is_empty, "legacy functions cannot be called; use 'tools'", "legacy_tools_not_supported"),
    Rule(
        "function_call",
        _is("none", "auto"),
        "a call cannot be forced; only 'none' and 'auto' are accepted",
        "legacy_tools_not_supported",
    ),
    Rule(
        "repetition_penalty",
        _is(1),
        "repetition is not penalised this way; only 1 is accepted, or use presence_penalty",
        "repetition_penalty_not_supported",
    ),
    Rule(
        "mm_processor_kwargs",
        _is_all_null,
        "the media processor cannot be configured by a request; only an empty object is accepted",
        "mm_processor_kwargs_not_supported",
    ),
    *(
        Rule(field, _never, _CONSTRAINED, "structured_outputs_not_supported")
        for field in (
            "grammar",
            "structured_outputs",
            "guided_json",
            "guided_regex",
            "guided_choice",
            "guided_grammar",
        )
    ),
    # Advisory: checked for form, without effect (contract CHAT-28, CHAT-29, ERR-7).
    Rule("audio", _is_object, "must be an object"),
    Rule("prediction", _is_object, "must be an object"),
    Rule("metadata", _is_object, "must be an object"),
    Rule("user", _is_text, "must be a string"),
    Rule("service_tier", _is_text, "must be a string"),
    Rule("safety_identifier", _is_key, f"must be a string of at most {_MAX_KEY_CHARACTERS} characters"),
    Rule("prompt_cache_key", _is_key, f"must be a string of at most {_MAX_KEY_CHARACTERS} characters"),
    Rule("prompt_cache_retention", _is("in_memory", "24h"), "must be 'in_memory' or '24h'"),
    Rule(
        "prompt_cache_options",
        _is_cache_options,
        "must be an object with 'mode' implicit or explicit, and 'ttl' 30m where given",
    ),
)


def check(body: dict[str, Any]) -> None:
    """Raise a RequestError for the first field of the table that asks for what is not given. Null says nothing."""
    for rule in RULES:
        value = body.get(rule.field)
        if value is not None and not rule.accepts(value):
            raise invalid_value(rule.field, rule.reason, code=rule.code)
