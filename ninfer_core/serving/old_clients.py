"""Answers to clients of HTTP/1.0, which know no chunks.

An answer without a length ends with its connection then (RFC 9112, section 6.3), which uvicorn closes behind every
answer to such a client. One that breaks off ends in the same way: only the protocol's own last event tells it apart.
"""

from __future__ import annotations

import sys
from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from ninfer_core.serving.asgi import Message


def answer_until_closed(cycle: RequestResponseCycle) -> None:
    """For a cycle that has not sent anything: no chunks, and no `100 Continue`, which is to be ignored (RFC 9110,
    section 10.1.1)."""
    cycle.waiting_for_100_continue = False
    send_framed = cycle.send
    until_closed = False

    async def send(message: Any) -> None:
        nonlocal until_closed
        if message["type"] == "http.response.start" and not _has_length(message):
            until_closed = True
            # Left open, it would have uvicorn choose chunks.
            cycle.chunked_encoding = False
            cycle.expected_content_length = sys.maxsize
        elif until_closed and not message.get("more_body", False):
            cycle.expected_content_length = len(message.get("body", b""))
        await send_framed(message)

    cycle.send = send  # type: ignore[method-assign]


def _has_length(start: Message) -> bool:
    return any(name.lower() == b"content-length" for name, _ in start.get("headers", ()))
