"""Identifiers in the form that clients know (contract IMPL-1). Random, never derived from content."""

from __future__ import annotations

import secrets
from typing import Literal


def chat_completion_id() -> str:
    """`chatcmpl-` and 16 hex digits."""
    return f"chatcmpl-{secrets.token_hex(8)}"


def tool_call_id() -> str:
    """`call_` and 16 hex digits."""
    return f"call_{secrets.token_hex(8)}"


def response_resource_id(prefix: Literal["resp", "msg", "rs", "fc"]) -> str:
    """Of a Response or one of its Items: the prefix, `_` and 32 hex digits (contract RESP-77)."""
    return f"{prefix}_{secrets.token_hex(16)}"


def anthropic_id(prefix: Literal["msg", "toolu", "req"]) -> str:
    """The prefix, `_` and 16 hex digits (contract ANTH-43)."""
    return f"{prefix}_{secrets.token_hex(8)}"
