"""Identifiers in the form that clients know (contract IMPL-1). Random, never derived from content."""

from __future__ import annotations

import secrets


def chat_completion_id() -> str:
    """`chatcmpl-` and 16 hex digits."""
    return f"chatcmpl-{secrets.token_hex(8)}"
