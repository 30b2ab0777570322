"""What a create request looks like on the wire, and the table of fields with one neutral value (contract RESP-18 to
22, RESP-74, IMPL-17)."""

from __future__ import annotations

from typing import Any

import msgspec

from ninfer_core.api import RequestError
from ninfer_protocols.wire.errors import invalid_value
from ninfer_protocols.wire.rules import CACHE_AND_CLIENT_HINTS, Rule, check_rules, is_empty, is_object, is_one_of, never

ENCRYPTED_REASONING = "reasoning.encrypted_content"
"""The one member of `include` that is honoured (decision 13)."""

MAX_METADATA_PAIRS, MAX_METADATA_KEY, MAX_METADATA_VALUE = 16, 64, 512
"""Contract RESP-8, in characters."""

LARGEST_INTEGER = 2**63 - 1


class StreamOptions(msgspec.Struct):
    """Accepted; a local server has no traffic to obscure."""

    include_obfuscation: bool | None = None


class CreateRequest(msgspec.Struct):
    """Types only: ranges and meaning are in `lowering`."""

    model: str | None = None
    input: str | list[Any] | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    max_output_tokens: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    store: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    metadata: dict[str, Any] | None = None
    reasoning: dict[str, Any] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    preserve_thinking: bool | None = None
    text: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    include: list[str] | None = None
    max_tool_calls: int | None = None


RULES: tuple[Rule, ...] = (
    Rule(
        "background",
        is_one_of(False),
        "every answer is given on its own connection; only false is accepted",
        "background_not_supported",
    ),
    Rule("conversation", never, "no Conversations are kept; use previous_response_id", "conversation_not_supported"),
    Rule("prompt", never, "no prompt templates are kept; send the text", "prompt_template_not_supported"),
    Rule(
        "context_management",
        is_empty,
        "the conversation is never shortened by the server",
        "context_management_not_supported",
    ),
    Rule("moderation", never, "no moderation runs on this server", "moderation_not_supported"),
    Rule(
        "truncation",
        is_one_of("disabled"),
        "Items are never dropped to make a prompt fit; only 'disabled' is accepted",
        "truncation_not_supported",
    ),
    Rule(
        "top_logprobs",
        is_one_of(0),
        "token probabilities are not returned; only 0 is accepted",
        "logprobs_not_supported",
    ),
    Rule(
        "service_tier",
        is_one_of("auto", "default"),
        "there is one tier; only 'auto' and 'default' are accepted",
        "service_tier_not_supported",
    ),
    Rule("client_metadata", is_object, "must be an object"),
    *CACHE_AND_CLIENT_HINTS,
)

PROMPT_FIELDS = frozenset(
    {
        "model",
        "input",
        "instructions",
        "previous_response_id",
        "reasoning",
        "chat_template_kwargs",
        "preserve_thinking",
        "text",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "truncation",
    }
)
"""What a count of input tokens takes (contract RESP-72)."""

KNOWN_FIELDS = frozenset(CreateRequest.__struct_fields__) | {rule.field for rule in RULES}


def check_fields(body: dict[str, Any]) -> None:
    """Raise for a field that nobody knows, and for one that asks for what is not given."""
    for field in body:
        if field not in KNOWN_FIELDS:
            raise _unknown(field, "is not a field of this endpoint")
    check_rules(RULES, body)


def check_count_fields(body: dict[str, Any]) -> None:
    """The same for a count of input tokens."""
    check_fields(body)
    for field, value in body.items():
        if field not in PROMPT_FIELDS and value is not None:
            raise _unknown(field, "has no effect on a count of input tokens; leave it out")


def check_values(request: CreateRequest) -> None:
    """Ranges of single fields (contract RESP-5, RESP-7, RESP-8, RESP-12, RESP-16)."""
    for field, high in (("temperature", 2), ("top_p", 1)):
        value = getattr(request, field)
        if value is not None and not 0 <= value <= high:
            raise invalid_value(field, f"is {value}; it must be between 0 and {high}")
    for field in ("max_output_tokens", "max_tool_calls"):
        value = getattr(request, field)
        if value is not None and not 0 <= value <= LARGEST_INTEGER:
            raise invalid_value(field, f"must be between 0 and {LARGEST_INTEGER}")
    _check_metadata(request.metadata or {})
    _check_text(request.text or {})
    for name in request.include or ():
        if name != ENCRYPTED_REASONING:
            raise invalid_value(
                "include",
                f"{name[:80]!r} is not something this server has; only '{ENCRYPTED_REASONING}' is accepted",
                code="include_not_supported",
            )


def _check_metadata(metadata: dict[str, Any]) -> None:
    if len(metadata) > MAX_METADATA_PAIRS:
        raise invalid_value("metadata", f"has {len(metadata)} pairs; at most {MAX_METADATA_PAIRS} are accepted")
    for key, value in metadata.items():
        if len(key) > MAX_METADATA_KEY:
            raise invalid_value("metadata", f"has a key of {len(key)} characters; at most {MAX_METADATA_KEY} are kept")
        if not isinstance(value, str) or len(value) > MAX_METADATA_VALUE:
            raise invalid_value("metadata", f"values are strings of at most {MAX_METADATA_VALUE} characters")


def _check_text(text: dict[str, Any]) -> None:
    form = text.get("format")
    if form is not None and not (isinstance(form, dict) and form.get("type") == "text"):
        raise invalid_value(
            "text.format",
            "output is never constrained to a schema here; only {'type': 'text'} is accepted",
            code="structured_outputs_not_supported",
        )
    if text.get("verbosity") not in (None, "medium"):
        raise invalid_value(
            "text.verbosity",
            "the length of answers cannot be steered; only 'medium' is accepted",
            code="verbosity_not_supported",
        )


def _unknown(field: str, reason: str) -> RequestError:
    shown = field[:80]
    return RequestError(f"{shown}: {reason}", code="unknown_parameter", param=shown)
