"""Every protocol that is installed says the same in a stream and in one piece, and the same as the others.

Random answers with reasoning, text of all kinds, calls that are good, broken or cut off, and stop strings, in tokens of
random bytes, go through sessions, stop strings and the family's parser to the wire of every protocol.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import httpx
import pytest

from ninfer_core.api import ProtocolContext, ProtocolRoutes
from ninfer_core.plugins import PluginRegistry
from ninfer_core.testing.event_streams import data_payloads, named_events
from ninfer_core.testing.scripted_server import MODEL_ID, scripted_server

FUNCTION = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}
WORDS = [
    "so", " ", "\n", "\n\n", "a<b", "🙂", "👩‍👩‍👧", "日本語", "é", "<", "</", "<tool", "<tool_call>", "</tool_call>",
    "</think>", "<think>", "<function=f>", '{"a": 1}', "\\", '"', "\x00", "\u2028", "\x85", "data: x", "event: y",
    ": z", "[DONE]",
]  # fmt: skip
CALLS = [
    "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n"
    "<parameter=b>\nx\ny 🙂\n</parameter>\n</function>\n</tool_call>",
    "<tool_call>\n<function=f>\n<parameter=b>\n</parameter>\n</function>\n</tool_call>",
    "<tool_call>\n<function=f>\n</function>\n</tool_call>",
    "<tool_call>\n<function=g>\n</function>\n</tool_call>",
    "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n<parameter=a>\n2\n</parameter>\n</function>\n</tool_call>",
    "<tool_call>\n<function=f>\n<parameter=a>\n1\n",
]


def spelled(arguments: Any) -> str:
    """Arguments in one spelling, their order kept."""
    return json.dumps(json.loads(arguments) if isinstance(arguments, str) else arguments)


class Told(NamedTuple):
    """What a client knows in the end. `ending` is in the words of its protocol."""

    reasoning: str
    content: str
    calls: tuple[tuple[str, str], ...]
    ending: str


@dataclass(frozen=True)
class Case:
    """One answer and what is asked of it."""

    number: int
    tokens: tuple[bytes, ...]
    thinking: bool
    tools: bool
    stop: tuple[str, ...]
    max_tokens: int
    tokens_per_round: int

    @property
    def question(self) -> str:
        return f"This is case {self.number}."

    @property
    def answer(self) -> dict[str, Any]:
        return {
            "match": f"case {self.number}.",
            "chunks_b64": [base64.b64encode(token).decode() for token in self.tokens],
            "tokens_per_round": self.tokens_per_round,
        }


def random_case(number: int) -> Case:
    chance = random.Random(number)

    def text() -> str:
        return "".join(chance.choices(WORDS, k=chance.randint(0, 12)))

    thinking = chance.random() < 0.5
    raw = text().replace("</think>", "") + "</think>" if thinking and chance.random() < 0.9 else ""
    raw += text() + "".join(chance.choices(CALLS, k=chance.choice([0, 0, 1, 1, 2, 3])))
    raw += text() if chance.random() < 0.2 else ""
    written = raw.encode()
    cuts = sorted(chance.sample(range(len(written) + 1), k=min(len(written), chance.randint(1, 60))))
    tokens = [written[start:end] for start, end in zip([0, *cuts], [*cuts, len(written)], strict=True)]
    start = chance.randrange(len(raw) + 1)
    found = raw[start : start + chance.randint(1, 6)]
    return Case(
        number=number,
        tokens=tuple(token for token in tokens if token) or (b".",),
        thinking=thinking,
        tools=chance.random() < 0.8,
        stop=(found, "never there") if found.strip() and chance.random() < 0.4 else (),
        max_tokens=chance.choice([200, 200, 200, 7, 1]),
        tokens_per_round=chance.randint(1, 4),
    )


def ask_chat(case: Case) -> tuple[str, dict[str, Any]]:
    body = {
        "messages": [{"role": "user", "content": case.question}],
        "enable_thinking": case.thinking,
        "tools": [{"type": "function", "function": {"name": "f", "parameters": FUNCTION}}] if case.tools else [],
        "stop": list(case.stop),
        "max_tokens": case.max_tokens,
    }
    return "/v1/chat/completions", body


def chat_whole(answer: dict[str, Any]) -> Told:
    (choice,) = answer["choices"]
    message = choice["message"]
    calls = [call["function"] for call in message.get("tool_calls", ())]
    return Told(
        message.get("reasoning_content", ""),
        message["content"] or "",
        tuple((call["name"], spelled(call["arguments"])) for call in calls),
        choice["finish_reason"],
    )


def chat_streamed(stream: str) -> Told:
    assert len(stream.splitlines()) == stream.count("\n")  # as clients split it
    *chunks, done = data_payloads(stream)
    assert done == "[DONE]"
    texts = {"reasoning_content": "", "content": ""}
    calls: list[dict[str, str]] = []
    for chunk in chunks:
        delta = chunk["choices"][0]["delta"]
        for field in texts:
            texts[field] += delta.get(field, "")
        for call in delta.get("tool_calls", ()):
            if call["index"] == len(calls):
                calls.append({"name": call["function"]["name"], "arguments": ""})
            calls[call["index"]]["arguments"] += call["function"]["arguments"]
    ending = chunks[-1]["choices"][0]["finish_reason"]
    return Told(*texts.values(), tuple((call["name"], spelled(call["arguments"])) for call in calls), ending)


def ask_responses(case: Case) -> tuple[str, dict[str, Any]]:
    body: dict[str, Any] = {
        "model": MODEL_ID,
        "input": case.question,
        "tools": [{"type": "function", "name": "f", "parameters": FUNCTION}] if case.tools else [],
        "max_output_tokens": case.max_tokens,
    }
    return "/v1/responses", body if case.thinking else body | {"reasoning": {"effort": "none"}}


def responses_whole(answer: dict[str, Any]) -> Told:
    parts: dict[str, str] = {"reasoning": "", "message": ""}
    calls = []
    for item in answer["output"]:
        if item["type"] == "function_call":
            calls.append((item["name"], spelled(item["arguments"])))
        else:
            parts[item["type"]] += "".join(part["text"] for part in item["content"])
    return Told(parts["reasoning"], parts["message"], tuple(calls), answer["status"])


def responses_streamed(stream: str) -> Told:
    events = named_events(stream)
    assert [event["sequence_number"] for _, event in events] == list(range(len(events)))
    texts = {"response.reasoning_text.delta": "", "response.output_text.delta": ""}
    calls: dict[int, dict[str, str]] = {}
    for name, event in events:
        if name in texts:
            texts[name] += event["delta"]
        elif name == "response.output_item.added" and event["item"]["type"] == "function_call":
            calls[event["output_index"]] = {"name": event["item"]["name"], "arguments": ""}
        elif name == "response.function_call_arguments.delta":
            calls[event["output_index"]]["arguments"] += event["delta"]
    _, last = events[-1]
    told = Told(
        *texts.values(),
        tuple((call["name"], spelled(call["arguments"])) for call in calls.values()),
        last["response"]["status"],
    )
    assert responses_whole(last["response"]) == told
    return told


def ask_messages(case: Case) -> tuple[str, dict[str, Any]]:
    body = {
        "model": "any",
        "messages": [{"role": "user", "content": case.question}],
        "thinking": {"type": "adaptive" if case.thinking else "disabled"},
        "tools": [{"name": "f", "input_schema": FUNCTION}] if case.tools else [],
        "stop_sequences": list(case.stop),
        "max_tokens": case.max_tokens,
    }
    return "/v1/messages", body


def messages_whole(answer: dict[str, Any]) -> Told:
    texts = {"thinking": "", "text": ""}
    calls = []
    for block in answer["content"]:
        if block["type"] == "tool_use":
            calls.append((block["name"], spelled(block["input"])))
        else:
            texts[block["type"]] += block[block["type"]]
    return Told(*texts.values(), tuple(calls), f"{answer['stop_reason']} {answer['stop_sequence']}")


def messages_streamed(stream: str) -> Told:
    blocks: list[dict[str, Any]] = []
    ending: dict[str, Any] = {}
    for name, event in named_events(stream):
        if name == "content_block_start":
            assert event["index"] == len(blocks)
            blocks.append(event["content_block"] | {"json": ""})
        elif name == "content_block_delta":
            block, delta = blocks[event["index"]], event["delta"]
            for field, into in (("text", "text"), ("thinking", "thinking"), ("partial_json", "json")):
                block[into] = block.get(into, "") + delta.get(field, "")
        elif name == "message_delta":
            ending = event["delta"]
    for block in blocks:
        if block["type"] == "tool_use":
            block["input"] = json.loads(block["json"] or "{}")
    return messages_whole({"content": blocks} | ending)


class Adapter(NamedTuple):
    ask: Callable[[Case], tuple[str, dict[str, Any]]]
    whole: Callable[[dict[str, Any]], Told]
    streamed: Callable[[str], Told]


ADAPTERS = {
    "openai-chat": Adapter(ask_chat, chat_whole, chat_streamed),
    "openai-responses": Adapter(ask_responses, responses_whole, responses_streamed),
    "anthropic": Adapter(ask_messages, messages_whole, messages_streamed),
}
PROTOCOLS = sorted(offer.name for offer in PluginRegistry.discover().offers("protocol"))


def all_protocols(context: ProtocolContext) -> list[ProtocolRoutes]:
    registry = PluginRegistry.discover()
    loaded = [registry.load(registry.select("protocol", name)) for name in PROTOCOLS]
    return [plugin.hook.ninfer_protocol_build(context=context) for plugin in loaded]


def tell(http: httpx.Client, protocol: str, case: Case) -> Told:
    """The answer, which is the same in both ways."""
    adapter = ADAPTERS[protocol]
    path, body = adapter.ask(case)
    whole = http.post(path, json=body)
    assert whole.status_code == 200, whole.text
    told = adapter.whole(whole.json())
    streamed = http.post(path, json=body | {"stream": True})
    assert adapter.streamed(streamed.text) == told, case
    return told


def check(cases: list[Case]) -> None:
    with (
        scripted_server([case.answer for case in cases], all_protocols) as server,
        httpx.Client(base_url=server.base_url, timeout=60) as http,
    ):
        for case in cases:
            told = {protocol: tell(http, protocol, case) for protocol in PROTOCOLS}
            if not case.stop:
                assert len({each[:3] for each in told.values()}) == 1, case
            chat = told["openai-chat"]
            assert all(call[0] == "f" for call in chat.calls) and (case.tools or not chat.calls)
            if not chat.calls and not case.stop and case.max_tokens >= len(case.tokens):
                said = b"".join(case.tokens).decode()
                said = said.removeprefix("<think>").replace("</think>", "", 1) if case.thinking else said
                assert "".join((chat.reasoning + chat.content).split()) == "".join(said.split()), case


@pytest.fixture(scope="module", autouse=True)
def _every_protocol_has_an_adapter() -> Iterator[None]:
    assert set(PROTOCOLS) == set(ADAPTERS), "a protocol is installed that this test cannot read"
    yield


@pytest.mark.contract("RESP-61", "ANTH-31", "CHAT-45", "TOOL-14", "GEN-28")
def test_some_random_answers() -> None:
    check([random_case(number) for number in range(40)])


@pytest.mark.long
def test_five_hundred_random_answers() -> None:
    check([random_case(number) for number in range(1000, 1500)])
