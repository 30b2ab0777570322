"""Reads server-sent events the way a client does, for tests of protocols."""

from __future__ import annotations

import json
from typing import Any


def data_payloads(stream: str) -> list[Any]:
    """Payloads of unnamed events in order, decoded from JSON; `[DONE]` stays text, comments are left out."""
    frames = [frame for frame in stream.split("\n\n") if frame.startswith("data: ")]
    payloads = [frame.removeprefix("data: ") for frame in frames]
    return [payload if payload == "[DONE]" else json.loads(payload) for payload in payloads]


def named_events(stream: str) -> list[tuple[str, Any]]:
    """Events with a name and their payloads, in order; comments are left out."""
    events = []
    for frame in stream.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in frame.split("\n") if line and not line.startswith(":"))
        if "event" in lines:
            events.append((lines["event"], json.loads(lines["data"])))
    return events
