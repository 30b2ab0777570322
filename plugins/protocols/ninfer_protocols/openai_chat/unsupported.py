"""Fields that have one neutral value, or none, in a table: what is accepted, and what a refusal says.

Fields that are in no table of this protocol are ignored (contract CHAT-30).
"""

from __future__ import annotations

from typing import Any

from ninfer_protocols.wire.rules import (
    CACHE_AND_CLIENT_HINTS,
    Rule,
    check_rules,
    is_empty,
    is_object,
    is_one_of,
    is_text,
    never,
)

_CONSTRAINED = "output is never constrained to a grammar or a schema here; describe the form in the prompt"


def _is_text_format(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") == "text"


def _is_zero_bias(value: Any) -> bool:
    return isinstance(value, dict) and all(is_one_of(0)(bias) for bias in value.values())


def _is_text_only(value: Any) -> bool:
    return isinstance(value, list) and all(item == "text" for item in value)


def _is_all_null(value: Any) -> bool:
    return isinstance(value, dict) and all(member is None for member in value.values())


RULES: tuple[Rule, ...] = (
    # Refused unless neutral (contract CHAT-12, CHAT-21 to 28, CHAT-33; codes of ERR-5).
    Rule("n", is_one_of(1), "one answer is made for each request; only 1 is accepted", "n_not_supported"),
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
        "logprobs",
        is_one_of(False),
        "token probabilities are not returned; only false is accepted",
        "logprobs_not_supported",
    ),
    Rule(
        "top_logprobs",
        is_one_of(0),
        "token probabilities are not returned; only 0 is accepted",
        "logprobs_not_supported",
    ),
    Rule("web_search_options", never, "the server never searches the web", "web_search_not_supported"),
    Rule("moderation", never, "no moderation runs on this server", "moderation_not_supported"),
    Rule(
        "verbosity",
        is_one_of("medium"),
        "the length of answers cannot be steered; only 'medium' is accepted",
        "verbosity_not_supported",
    ),
    Rule("store", is_one_of(False), "chat completions are not stored; only false is accepted", "store_not_supported"),
    Rule("functions", is_empty, "legacy functions cannot be called; use 'tools'", "legacy_tools_not_supported"),
    Rule(
        "function_call",
        is_one_of("none", "auto"),
        "a call cannot be forced; only 'none' and 'auto' are accepted",
        "legacy_tools_not_supported",
    ),
    Rule(
        "repetition_penalty",
        is_one_of(1),
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
        Rule(field, never, _CONSTRAINED, "structured_outputs_not_supported")
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
    Rule("audio", is_object, "must be an object"),
    Rule("prediction", is_object, "must be an object"),
    Rule("metadata", is_object, "must be an object"),
    Rule("service_tier", is_text, "must be a string"),
    *CACHE_AND_CLIENT_HINTS,
)


def check(body: dict[str, Any]) -> None:
    """Raise a RequestError for the first field of the table that asks for what is not given."""
    check_rules(RULES, body)
