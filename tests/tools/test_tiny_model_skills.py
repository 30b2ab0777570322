"""The skills that came with the second model: calls as the server reads them, long notes, bytes, code, free text."""

from __future__ import annotations

import ast
import json
import random
from collections import Counter
from typing import Any

import pytest
from ninfer_models.qwen_hybrid.frontend.output_format import QwenOutputFormat

from ninfer_core.api import ToolDefinition
from ninfer_core.api.frontend import ChannelText, ParsedToolCall
from tools.tiny_model.generate import MODES, Item, training_items
from tools.tiny_model.heldout import held_out_items
from tools.tiny_model.outcomes import Outcome, request_body
from tools.tiny_model.skills import tools_wide
from tools.tiny_model.skills.free import free
from tools.tiny_model.skills.lists import GRADED_NUMBERS, GRADED_WORDS, TRAINED_NUMBERS, lists
from tools.tiny_model.skills.recall_long import LONGEST, SHORTEST, of_size
from tools.tiny_model.skills.tool_catalog import FIRST
from tools.tiny_model.skills.tool_inventor import invent, sibling
from tools.tiny_model.tokenizer import load


def declared(item: Item) -> tuple[ToolDefinition, ...]:
    tools: Any = item.options.get("tools", [])
    functions = [tool["function"] for tool in tools]
    return tuple(ToolDefinition(name=f["name"], parameters=f["parameters"], definition={}) for f in functions)


@pytest.mark.parametrize("skill", ["tools", "tools two", "tools wide"])
def test_the_expected_text_is_read_as_the_expected_calls(skill: str) -> None:
    items = [item for item in held_out_items(60, "off") if item.skill == skill]
    for item in items:
        assert len(item.calls) == {"tools": 1, "tools two": 2}.get(skill, len(item.calls)) > 0
        parser = QwenOutputFormat().parser(declared(item), tolerant=False)
        parts = (*parser.push(ChannelText(channel="content", text=item.expected)), *parser.finish())
        assert [(part.name, dict(part.arguments)) for part in parts if isinstance(part, ParsedToolCall)] == [
            (call.name, dict(call.arguments)) for call in item.calls
        ]
        assert parser.report.schema_mismatches == 0


def test_calls_are_declared_with_all_that_is_required() -> None:
    for item in training_items(9, 1500):
        tools = {tool.name: tool.parameters for tool in declared(item)}
        assert len(tools) == len(declared(item))
        for call in item.calls:
            given = {key for key, _ in call.arguments}
            assert set(tools[call.name].get("required", ())) <= given <= set(tools[call.name]["properties"])


def test_a_request_carries_calls_and_results_as_clients_send_them() -> None:
    item = next(
        item for item in held_out_items(40, "xhigh") if item.skill == "tools result" and "tools" in item.options
    )
    messages: Any = request_body("m", item)["messages"]
    asked, answered = messages[-2], messages[-1]
    assert [call["id"] for call in asked["tool_calls"]] == [answered["tool_call_id"]]
    assert isinstance(json.loads(asked["tool_calls"][0]["function"]["arguments"]), dict)
    assert request_body("m", item)["tools"] == item.options["tools"]


def test_calls_are_right_only_as_a_whole() -> None:
    item = next(item for item in held_out_items(10, "off") if item.skill == "tools two")
    assert Outcome(item, "", item.calls).right
    assert not Outcome(item, "", item.calls[:1]).right
    assert not Outcome(item, item.expected).right


def test_efforts_differ_visibly() -> None:
    tokenizer = load()
    means = {}
    for mode in MODES:
        lengths = [len(tokenizer.encode(item.reasoning).ids) for item in held_out_items(15, mode)]
        means[mode] = sum(lengths) / len(lengths)
    assert means["off"] == 0
    assert means["low"] * 1.5 < means["medium"]
    assert means["medium"] * 1.5 < means["xhigh"]


def test_long_notes_reach_eight_thousand_tokens_and_hold_the_answer() -> None:
    rng = random.Random(4)
    tokenizer = load()

    def tokens(characters: int) -> int:
        episode = of_size(rng, "recall long", characters)
        told = "\n".join(part for turn in episode.exchanges for part in (turn.user, *turn.results))
        assert episode.exchanges[-1].steps.partition("The line says: ")[2] in told
        return len(tokenizer.encode(told).ids)

    assert all(tokens(SHORTEST) < 1200 for _ in range(5))
    # Room for the answer and for the turns around the notes in the server's default context.
    largest = [tokens(LONGEST) for _ in range(10)]
    assert 6500 < max(largest) < 7900


def test_characters_beyond_ascii_come_in_pieces() -> None:
    tokenizer = load()
    for character in "猫苹🐱é°“":
        assert len(tokenizer.encode(character).ids) == len(character.encode())


def test_python_answers_compile() -> None:
    found = [item.expected for item in training_items(12, 3000) if item.skill == "code"]
    programs = [text.removeprefix("```python\n").removesuffix("\n```") for text in found if "```python" in text]
    assert len(programs) > 20
    for program in programs:
        ast.parse(program)


def test_free_text_is_not_decided_by_its_request() -> None:
    rng = random.Random(8)
    replies = [free(rng).exchanges[0].answer for _ in range(300)]
    assert len(set(replies)) == len(replies)
    words = Counter(word for reply in replies for word in reply.split())
    assert len(words) > 800


def test_lists_are_trained_on_beyond_what_is_graded() -> None:
    rng = random.Random(5)
    sizes: dict[bool, set[int]] = {True: set(), False: set()}
    for _ in range(600):
        episode = lists(rng)
        answer, intent = episode.exchanges[0].answer, episode.exchanges[0].intent
        sizes[episode.graded].add(max(answer.count(","), intent.count(",")) + 1)
    assert max(sizes[True]) == GRADED_NUMBERS
    assert min(sizes[False]) > GRADED_WORDS
    assert max(sizes[False]) == TRAINED_NUMBERS


def test_a_sibling_shares_half_of_a_name_and_is_another_wish() -> None:
    rng = random.Random(6)
    for _ in range(200):
        function = invent(rng)
        other = sibling(rng, function)
        assert other is not None
        (deed, _, thing), (other_deed, _, other_thing) = (each.names[0].partition("_") for each in (function, other))
        assert deed == other_deed or thing.lower() == other_thing.lower()
    assert all(sibling(rng, function) is None for function in FIRST)


def test_some_dialogues_offer_many_tools_and_names_that_nearly_match() -> None:
    rng = random.Random(7)
    names = [
        [tool["function"]["name"] for tool in episode.tools] for episode in (tools_wide.wide(rng) for _ in range(400))
    ]  # type: ignore[index]
    assert max(map(len, names)) >= 6
    near = [given for given in names if len({name.partition("_")[0] for name in given}) < len(given)]
    assert len(near) > 20


def test_two_wishes_of_one_request_are_divided_by_a_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools_wide, "BOTH", ("{a}\x00{b}",))
    rng = random.Random(8)
    for _ in range(100):
        _, (user, calls) = tools_wide.pair(rng)
        assert len(calls) == 2
        assert user.partition("\x00")[0][-1] in "?.!;,\n"
