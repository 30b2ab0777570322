"""What a held-out prompt looks like as a request, and what became of it; needs nothing but the standard library."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tools.tiny_model.episode import Call
from tools.tiny_model.generate import Item

# Enough for the longest reasoning; a reply cut here counts as wrong.
MOST_TOKENS = 512
# The longest prompts leave less room in the server's default context of 8 192.
MOST_TOKENS_AFTER_LONG = 200


@dataclass(frozen=True, slots=True)
class Outcome:
    item: Item
    said: str
    called: tuple[Call, ...] = ()

    @property
    def right(self) -> bool:
        """The calls, with the arguments in their order, or the text."""
        if self.item.calls or self.called:
            return self.called == self.item.calls
        return self.said.strip() == self.item.expected


def request_body(model: str, item: Item) -> dict[str, object]:
    """`reasoning_effort` and `tools` are fields of the interface; the other options are the template's own."""
    template_options = dict(item.options)
    most = MOST_TOKENS_AFTER_LONG if item.skill == "recall long" else MOST_TOKENS
    body: dict[str, object] = {
        "model": model, "messages": wire_messages(item.messages), "temperature": 0, "max_tokens": most,
    }  # fmt: skip
    for name in ("reasoning_effort", "tools"):
        if name in template_options:
            body[name] = template_options.pop(name)
    if template_options:
        body["chat_template_kwargs"] = template_options
    return body


def wire_messages(messages: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """Calls get ids and arguments in JSON text, results the ids of the calls before them."""
    wired: list[dict[str, object]] = []
    waiting: deque[str] = deque()
    for index, message in enumerate(messages):
        sent = dict(message)
        if calls := message.get("tool_calls"):
            assert isinstance(calls, list)
            waiting = deque(f"call_{index}_{number}" for number in range(len(calls)))
            sent["tool_calls"] = [
                {"id": name, "type": "function", "function": call["function"] | {
                    "arguments": json.dumps(call["function"]["arguments"], ensure_ascii=False)}}
                for name, call in zip(waiting, calls, strict=True)
            ]  # fmt: skip
        elif message["role"] == "tool":
            sent["tool_call_id"] = waiting.popleft()
        wired.append(sent)
    return wired


def table(outcomes: Sequence[Outcome]) -> str:
    asked = Counter(outcome.item.skill for outcome in outcomes)
    right = Counter(outcome.item.skill for outcome in outcomes if outcome.right)
    lines = ["| skill | right | of | percent |", "| --- | ---: | ---: | ---: |"]
    lines += [f"| {name} | {right[name]} | {asked[name]} | {100 * right[name] / asked[name]:.1f} |" for name in asked]
    return "\n".join(lines)
