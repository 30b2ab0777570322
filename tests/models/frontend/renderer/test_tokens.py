"""Frontiers are exact: the text before one, tokenized alone, gives the ids before it."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from ninfer_models.qwen_hybrid.frontend.renderer import tokenize
from ninfer_models.qwen_hybrid.frontend.renderer.segments import Mark, Rendering, RequestText, Source, TemplateText

from ninfer_core.api import (
    CacheMark,
    Frontier,
    FrontierKind,
    GenerationRequest,
    InvalidPrompt,
    MediaPart,
    Message,
    TemplateOptions,
    TextPart,
    ThinkingDefaults,
    ToolCall,
    ToolDefinition,
)

STYLES = ("tiny", "3.8", "3.6")
CALL = ToolCall(name="f", arguments={"k": "v"})


def say(role: Any, text: str, **more: Any) -> Message:
    return Message(role=role, content=(TextPart(text),), **more)


def places(prepared: Any, tokenizer: Any) -> dict[tuple[str, int | None], str]:
    """The text before every frontier."""
    return {
        (each.kind, each.message): decoded(prepared.token_ids[: each.tokens], tokenizer) for each in prepared.frontiers
    }


def decoded(token_ids: tuple[int, ...], tokenizer: Any) -> str:
    """With control tokens."""
    texts = tokenizer.control.text_of
    return b"".join(texts[i].encode() if i in texts else tokenizer.token_bytes(i) for i in token_ids).decode()


def is_head(found: dict[tuple[str, int | None], str], text: str) -> bool:
    return all(text.startswith(head) for head in found.values())


@pytest.mark.contract("PCACHE-7", "EXEC-12", "EXEC-13")
@pytest.mark.parametrize("style", STYLES)
def test_every_kind_stands_where_it_should(style: str, frontend_of: Any) -> None:
    frontend = frontend_of(style)
    tool = ToolDefinition(name="f", parameters={}, definition={"name": "f"})
    messages = (
        say("system", "be brief"),
        say("user", "q1"),
        say("assistant", "a1"),
        say("user", "q2"),
        say("system", "mid"),
        say("assistant", "", tool_calls=(CALL, CALL)),
        say("tool", "r1"),
        say("tool", "r2"),
    )
    prepared = frontend.prepare(GenerationRequest(messages=messages, tools=(tool,)), ThinkingDefaults())
    found = places(prepared, frontend._tokenizer)
    assert is_head(found, prepared.text)
    assert set(found) == {
        *(("message", place) for place in range(8)),
        *((kind, None) for kind in ("tools", "system", "turn", "generation")),
    }
    assert found["tools", None].endswith("</IMPORTANT>\n\n")
    assert found["system", None] == found["message", 0]
    assert found["message", 0].endswith("\n\nbe brief<|im_end|>\n")
    assert found["message", 1].endswith("q1<|im_end|>\n")
    assert found["message", 6].endswith("r1\n</tool_response>")
    assert found["message", 7].endswith("r2\n</tool_response><|im_end|>\n")
    assert found["turn", None] == found["message", 4]
    assert found["generation", None] == found["message", 7]
    assert prepared.text == found["generation", None] + "<|im_start|>assistant\n<think>\n"
    counts = [each.tokens for each in prepared.frontiers]
    assert counts == sorted(counts) and counts[0] > 0


def test_without_instruction_tools_or_effort_there_is_no_such_frontier(frontend_of: Any) -> None:
    frontend = frontend_of("3.8")
    request = GenerationRequest(messages=(say("user", "q"),))
    prepared = frontend.prepare(request, ThinkingDefaults(enable_thinking=False))
    ends = len(prepared.token_ids) - len(frontend._tokenizer.encode(pieces_of_prologue(frontend)))
    assert prepared.frontiers == tuple(
        Frontier(kind=kind, tokens=ends, message=message)  # type: ignore[arg-type]
        for kind, message in (("message", 0), ("turn", None), ("generation", None))
    )
    tool = ToolDefinition(name="f", parameters={}, definition={"name": "f"})
    offered = frontend.prepare(
        GenerationRequest(messages=(say("user", "q"),), tools=(tool,)), ThinkingDefaults(enable_thinking=False)
    )
    found = places(offered, frontend._tokenizer)
    assert found["tools", None].endswith("</IMPORTANT>")
    assert found["system", None] == found["tools", None] + "<|im_end|>\n"


def pieces_of_prologue(frontend: Any) -> tuple[Any, ...]:
    segments = frontend._prompts._renderer.dialect.prologues[False]
    return Rendering(tuple(segments), ()).pieces


def test_the_page_has_a_row_for_every_kind() -> None:
    page = (Path(__file__).parents[4] / "docs" / "templates.md").read_text()
    rows = page.partition("## Frontiers")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", rows, re.MULTILINE) == list(get_args(FrontierKind))


@pytest.mark.contract("PCACHE-7")
@pytest.mark.parametrize("style", [STYLES[0], *(pytest.param(style, marks=pytest.mark.long) for style in STYLES[1:])])
def test_the_ids_before_a_frontier_are_those_of_the_text_before_it(
    style: str, frontend_of: Any, generator: Callable[..., Any]
) -> None:
    """Also for texts that begin with marks which combine with what stands before, or with line feeds."""
    frontend = frontend_of(style)
    tokenizer, renderer = frontend._tokenizer, frontend._prompts._renderer
    seen: dict[str, int] = {}
    for seed in range(400):
        request = generator(seed, free=True).request()
        options = TemplateOptions(enable_thinking=seed % 2 == 0, preserve_thinking=seed % 3 == 0)
        try:
            rendering = renderer.render(request.messages, request.tools, options, cache_marks=request.cache_marks)
        except InvalidPrompt:
            continue
        ids, frontiers = tokenize(rendering, tokenizer)
        assert ids == tokenizer.encode(rendering.pieces)
        assert [each.tokens for each in frontiers] == sorted(each.tokens for each in frontiers)
        by_mark = {(each.kind, each.message, each.part): each for each in frontiers}
        for mark in rendering.marks:
            head = tokenizer.encode(Rendering(rendering.segments[: mark.segment], ()).pieces)
            exact = bool(head) and ids[: len(head)] == head
            found = by_mark.get((mark.kind, mark.message, mark.part))
            assert exact == (found is not None)
            if found is not None:
                assert found.tokens == len(head)
            seen[mark.kind] = seen.get(mark.kind, 0) + exact
    assert all(seen[kind] > 50 for kind in get_args(FrontierKind))


@pytest.mark.contract("PCACHE-3", "PCACHE-7", "ANTH-21", "ANTH-24")
@pytest.mark.parametrize("style", STYLES)
def test_cache_marks_have_frontiers_where_they_can(style: str, frontend_of: Any) -> None:
    frontend = frontend_of(style)
    tools = tuple(ToolDefinition(name=name, parameters={}, definition={"name": name}) for name in ("f", "g"))
    picture = "<|vision_start|>"
    messages = (
        Message(role="system", content=(TextPart("See the pl"), TextPart("an first"), TextPart("   "))),
        Message(role="user", content=(TextPart(" q1\n"), TextPart(picture), TextPart(" after"))),
        say("assistant", "a1", reasoning="r", tool_calls=(CALL, CALL)),
        say("tool", "r1"),
        say("tool", "r2"),
    )
    wanted = {
        (None, 0): '{"name": "f"}\n',
        (None, 1): "</IMPORTANT>\n\n",
        (0, 1): "the plan first",
        (0, 2): "the plan first",
        (1, 0): "user\nq1\n",
        (1, 2): " after",
        (1, None): " after<|im_end|>\n",
        (2, 0): "</think>\n\na1",
        (2, None): "</function>\n</tool_call><|im_end|>\n",
        (3, 0): "r1",
        (4, None): "r2\n</tool_response><|im_end|>\n",
    }
    # In the middle of a token; messages that there are not.
    nowhere = [(0, 0), (5, None), (7, 3)]
    marks = tuple(CacheMark(message=message, part=part) for message, part in (*wanted, *nowhere))
    request = GenerationRequest(messages=messages, tools=tools, cache_marks=marks)
    prepared = frontend.prepare(request, ThinkingDefaults())
    bare = frontend.prepare(GenerationRequest(messages=messages, tools=tools), ThinkingDefaults())
    assert (prepared.text, prepared.token_ids) == (bare.text, bare.token_ids)
    assert tuple(each for each in prepared.frontiers if each.kind != "mark") == bare.frontiers
    heads = {
        (each.message, each.part): decoded(prepared.token_ids[: each.tokens], frontend._tokenizer)
        for each in prepared.frontiers
        if each.kind == "mark"
    }
    assert set(heads) == set(wanted)
    for place, end in wanted.items():
        assert prepared.text.startswith(heads[place]) and heads[place].endswith(end), place
    counts = [each.tokens for each in prepared.frontiers]
    assert counts == sorted(counts)


def test_a_mark_after_a_picture_is_after_its_closing_token(known: Callable[[str], Any]) -> None:
    image = MediaPart(modality="image", source="data:,")
    user = Message(role="user", content=(TextPart("see"), image, TextPart("now")))
    options = TemplateOptions(enable_thinking=False, preserve_thinking=True)
    rendering = known("3.8").renderer.render((user,), (), options, cache_marks=(CacheMark(message=0, part=1),))
    (mark,) = [mark for mark in rendering.marks if mark.kind == "mark"]
    assert Rendering(rendering.segments[: mark.segment], ()).text.endswith(
        "see<|vision_start|><|image_pad|><|vision_end|>"
    )


def test_a_mark_inside_a_token_is_no_frontier(frontend_of: Any) -> None:
    tokenizer = frontend_of("3.8")._tokenizer
    source = Source("content", 0, 0)
    whole = "The plan"
    for cut in range(1, len(whole)):
        segments = (TemplateText(whole[:cut]), RequestText(whole[cut:], source))
        _, frontiers = tokenize(Rendering(segments, (Mark("tools", 1),)), tokenizer)
        ids, head = tokenizer.encode((whole,)), tokenizer.encode((whole[:cut],))
        assert bool(frontiers) == (ids[: len(head)] == head)
    composed = (TemplateText("e"), RequestText("\u0301", source))
    assert tokenize(Rendering(composed, (Mark("tools", 1),)), tokenizer)[1] == ()


def test_many_messages_take_linear_time(frontend_of: Any) -> None:
    """Ten times the messages in well under a hundred times the time."""
    frontend = frontend_of("3.6")

    def seconds(count: int) -> float:
        messages = tuple(say(random.choice(("user", "assistant")), "a few words") for _ in range(count))
        request = GenerationRequest(messages=(say("user", "q"), *messages))
        start = time.process_time()
        prepared = frontend.prepare(request, ThinkingDefaults())
        assert len(prepared.frontiers) == count + 3
        return time.process_time() - start

    seconds(10)
    assert min(seconds(5000) for _ in range(2)) < 70 * max(min(seconds(500) for _ in range(3)), 1e-3)
