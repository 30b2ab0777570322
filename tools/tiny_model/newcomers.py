"""First requests of people who try tools: written by hand in `newcomers.json`, and kept out of training by their text.

`evaluate_newcomers.py` asks them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("newcomers.json")
MOST_TOKENS = 400
Calls = list[tuple[str, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt and what is right: any of some lists of calls, any of some texts, or all of some parts of a text."""

    tools: tuple[dict[str, Any], ...]
    ask: str
    calls: tuple[Calls, ...] = ()
    says: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()
    called: tuple[str, dict[str, Any]] | None = None
    """The call that was made before, with what it `returned`."""
    returned: str = ""
    known: bool = False
    """Everybody says it, so it is trained on."""

    def right(self, said: str, called: Calls) -> bool:
        if self.calls or called:
            return called in self.calls
        return all(part in said for part in self.holds) if self.holds else said.strip() in self.says

    def body(self, model: str, *, thinking: bool) -> dict[str, Any]:
        messages: list[dict[str, Any]] = [{"role": "user", "content": self.ask}]
        if self.called:
            name, arguments = self.called
            function = {"name": name, "arguments": json.dumps(arguments)}
            call = {"id": "call_1", "type": "function", "function": function}
            messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": "call_1", "content": self.returned})
        body: dict[str, Any] = {"model": model, "messages": messages, "tools": list(self.tools), "temperature": 0}
        body["max_tokens"] = MOST_TOKENS
        return body if thinking else body | {"chat_template_kwargs": {"enable_thinking": False}}


@cache
def requests() -> tuple[Request, ...]:
    written = json.loads(FILE.read_text(encoding="utf-8"))
    return tuple(read(entry, written["tools"]) for entry in written["requests"])


def read(entry: dict[str, Any], tools: dict[str, Any]) -> Request:
    made = [(name, arguments) for name, arguments in entry.get("calls", [])]
    name_and_arguments = entry.get("called")
    return Request(
        tools=tuple(tools[name] for name in entry["tools"]),
        ask=entry["ask"],
        calls=tuple([one] for one in made) if entry.get("either") else (made,) if made else (),
        says=tuple(entry.get("says", ())),
        holds=tuple(entry.get("holds", ())),
        called=(name_and_arguments[0], name_and_arguments[1]) if name_and_arguments else None,
        returned=entry.get("returned", ""),
        known=entry.get("known", False),
    )


def normal(text: str) -> str:
    return text.strip().rstrip("?.!").lower()


@cache
def _texts() -> frozenset[str]:
    return frozenset(normal(request.ask) for request in requests() if not request.known)


def is_newcomers(text: str) -> bool:
    """Whether training must not see this text, whatever its case and the mark at its end."""
    return normal(text) in _texts()
