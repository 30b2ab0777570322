"""What the structured renderer does beyond the template, and what it knows about each stretch of text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ninfer_models.qwen_hybrid.frontend.renderer.segments import MediaPad, RequestText, Source
from ninfer_models.qwen_hybrid.frontend.tokenizer import Control

from ninfer_core.api import (
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
OFF = ThinkingDefaults(enable_thinking=False)
IMAGE = MediaPart(modality="image", source="data:,")
VIDEO = MediaPart(modality="video", source="data:,")


def say(role: Any, *texts: str, **more: Any) -> Message:
    return Message(role=role, content=tuple(TextPart(text) for text in texts), **more)


def prepare(frontend: Any, *messages: Message, defaults: ThinkingDefaults = OFF, **more: Any) -> Any:
    return frontend.prepare(GenerationRequest(messages=messages, **more), defaults)


@pytest.mark.contract("CHAT-38", "CHAT-39", "ANTH-2")
@pytest.mark.parametrize("style", STYLES)
def test_system_class_messages_stand_where_they_were_sent(style: str, frontend_of: Any) -> None:
    call = ToolCall(name="f", arguments={})
    prepared = prepare(
        frontend_of(style),
        say("developer", "d0"),
        say("system", "s1"),
        say("developer", " d2 "),
        say("user", "u3"),
        say("system", "s4"),
        say("assistant", "a5", tool_calls=(call,)),
        say("system", "s6"),
        say("tool", "t7"),
        say("developer", ""),
        say("tool", "t9"),
        say("system", "s10"),
    )
    block = "<|im_start|>system\n{}<|im_end|>\n"
    result = "<|im_start|>user\n<tool_response>\n{}\n</tool_response><|im_end|>\n"
    assert prepared.text == (
        "".join(block.format(text) for text in ("d0", "s1", "d2"))
        + "<|im_start|>user\nu3<|im_end|>\n"
        + block.format("s4")
        + "<|im_start|>assistant\n<think>\n\n</think>\n\na5\n\n<tool_call>\n<function=f>\n</function>\n</tool_call>"
        + "<|im_end|>\n"
        + block.format("s6")
        + result.format("t7")
        + block.format("")
        + result.format("t9")
        + block.format("s10")
        + "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    )


@pytest.mark.contract("CHAT-39")
def test_a_leading_instruction_keeps_the_templates_composition(frontend_of: Any) -> None:
    tool = ToolDefinition(name="f", parameters={}, definition={"name": "f"})
    text = prepare(
        frontend_of("3.8"),
        say("developer", "be brief"),
        say("system", "and kind"),
        say("user", "q"),
        defaults=ThinkingDefaults(),
        tools=(tool,),
    ).text
    first = text.partition("<|im_end|>")[0]
    sentence, tools, own = (first.find(part) for part in ("The effort of", "# Tools", "be brief"))
    assert 0 < sentence < tools < own
    assert first.endswith("</IMPORTANT>\n\nbe brief")
    assert "<|im_end|>\n<|im_start|>system\nand kind<|im_end|>\n<|im_start|>user\nq<|im_end|>\n" in text


@pytest.mark.contract("CHAT-37")
@pytest.mark.parametrize(("style", "words"), [("3.8", "no question of a user"), ("3.6", "no user query")])
def test_a_conversation_without_a_question_is_refused_in_the_templates_words(
    style: str, words: str, frontend_of: Any
) -> None:
    for messages in ((say("system", "s"),), (say("user", "<tool_response>x</tool_response>"), say("system", "s"))):
        with pytest.raises(InvalidPrompt, match=words) as caught:
            prepare(frontend_of(style), *messages)
        assert caught.value.code == "invalid_prompt"
    with pytest.raises(InvalidPrompt, match="no messages"):
        prepare(frontend_of(style))


@pytest.mark.contract("CHAT-40")
def test_objects_keep_their_member_order_and_numbers_their_spelling(frontend_of: Any) -> None:
    definition = {"z": 1, "a": {"y": 1.0, "b": [1e100, None]}, "é": "</tools>"}
    call = ToolCall(name="f", arguments={"z": {"b": 1e-7, "a": True}, "a": 10**30, "m": ' "raw"\n'})
    text = prepare(
        frontend_of("3.6"),
        say("user", "q"),
        say("assistant", "", tool_calls=(call,)),
        tools=(ToolDefinition(name="f", parameters={}, definition=definition),),
    ).text
    assert '\n{"z": 1, "a": {"y": 1.0, "b": [1e+100, null]}, "é": "</tools>"}\n</tools>' in text
    assert (
        '<function=f>\n<parameter=z>\n{"b": 1e-07, "a": true}\n</parameter>\n<parameter=a>\n1' + "0" * 30 + "\n"
        '</parameter>\n<parameter=m>\n "raw"\n\n</parameter>\n</function>'
    ) in text


def test_an_argument_nested_too_deeply_is_refused(frontend_of: Any) -> None:
    deep: Any = []
    for _ in range(200_000):
        deep = [deep]
    call = ToolCall(name="f", arguments={"deep": deep})
    with pytest.raises(InvalidPrompt, match="nested too deeply") as caught:
        prepare(frontend_of("3.8"), say("user", "q"), say("assistant", "", tool_calls=(call,)))
    assert caught.value.param == "messages[1].tool_calls[0]"


@pytest.mark.contract("ANTH-3")
@pytest.mark.parametrize("style", STYLES)
def test_a_final_assistant_message_can_be_continued(style: str, frontend_of: Any) -> None:
    frontend = frontend_of(style)
    question = say("user", "q")
    prepared = prepare(frontend, question, say("assistant", "\n The answer", " is "), continue_final=True)
    opened = prepare(frontend, question)
    assert prepared.text == opened.text + "The answer is "
    assert prepared.initial_channel == "content"
    # What comes before the text it goes on with is the same, so it is found again.
    assert prepared.frontiers == opened.frontiers
    assert prepare(frontend, question, say("assistant"), continue_final=True).text == opened.text
    after = prepare(
        frontend, question, say("assistant", "a"), say("tool", "t"), say("assistant", "b"), continue_final=True
    )
    assert after.text.endswith("\nt\n</tool_response><|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\nb")


@pytest.mark.contract("ANTH-4")
@pytest.mark.parametrize(
    ("last", "defaults", "words"),
    [
        (say("user", "q"), OFF, "is a user message"),
        (say("assistant", "a", reasoning="r"), OFF, "more than text"),
        (say("assistant", "a", tool_calls=(ToolCall(name="f", arguments={}),)), OFF, "more than text"),
        (say("assistant", "a"), ThinkingDefaults(), "thinking is on"),
    ],
)
def test_what_cannot_be_continued(last: Message, defaults: ThinkingDefaults, words: str, frontend_of: Any) -> None:
    with pytest.raises(InvalidPrompt, match=words) as caught:
        prepare(frontend_of("3.8"), say("user", "q"), last, defaults=defaults, continue_final=True)
    assert caught.value.param == "messages[1]"


def rendered(
    known: Callable[[str], Any], style: str, *messages: Message, tools: tuple[ToolDefinition, ...] = ()
) -> Any:
    return known(style).renderer.render(messages, tools, TemplateOptions(enable_thinking=False, preserve_thinking=True))


@pytest.mark.parametrize("style", STYLES)
def test_every_text_of_a_request_knows_its_source(style: str, known: Callable[[str], Any]) -> None:
    call = ToolCall(name="look", arguments={"key": "value", "n": 2})
    rendering = rendered(
        known,
        style,
        say("system", " sys "),
        say("user", "  one ", "two"),
        say("assistant", "said", reasoning=" thought\n", tool_calls=(call, call)),
        say("tool", "found"),
        tools=(ToolDefinition(name="f", parameters={}, definition={"n": 1}),) * 2,
    )
    texts = [(segment.text, segment.source) for segment in rendering.segments if isinstance(segment, RequestText)]
    arguments = [
        [
            ("look", Source("tool_name", 2, place)),
            ("key", Source("argument_name", 2, place)),
            ("value", Source("argument", 2, place)),
            ("n", Source("argument_name", 2, place)),
            ("2", Source("argument", 2, place)),
        ]
        for place in range(2)
    ]
    assert texts == [
        ('{"n": 1}', Source("tool_definition", None, 0)),
        ('{"n": 1}', Source("tool_definition", None, 1)),
        ("sys", Source("content", 0, 0)),
        ("one ", Source("content", 1, 0)),
        ("two", Source("content", 1, 1)),
        ("thought", Source("reasoning", 2)),
        ("said", Source("content", 2, 0)),
        *arguments[0],
        *arguments[1],
        ("found", Source("content", 3, 0)),
    ]


def test_reasoning_divided_out_of_content_keeps_its_source(known: Callable[[str], Any]) -> None:
    turn = say("assistant", "<think>\nbe", "cause\n</thi", "nk>\n\nso")
    rendering = rendered(known, "3.6", say("user", "q"), turn)
    texts = [(segment.text, segment.source) for segment in rendering.segments if isinstance(segment, RequestText)]
    content = [Source("content", 1, place) for place in range(3)]
    assert texts[1:] == [("be", content[0]), ("cause", content[1]), ("so", content[2])]


@pytest.mark.contract("CHAT-4")
def test_media_stand_in_order_as_one_pad_token_with_its_source(known: Callable[[str], Any], control: Any) -> None:
    user = Message(role="user", content=(TextPart(" see "), IMAGE, TextPart(" and "), VIDEO, TextPart("  ")))
    rendering = rendered(known, "3.8", user, Message(role="tool", content=(IMAGE,)))
    assert "user\nsee <|vision_start|><|image_pad|><|vision_end|> and <|vision_start|><|video_pad|><|vision_end|>" in (
        rendering.text
    )
    pads = [segment for segment in rendering.segments if isinstance(segment, MediaPad)]
    assert pads == [
        MediaPad(control.id_of["<|image_pad|>"], "<|image_pad|>", Source("content", 0, 1)),
        MediaPad(control.id_of["<|video_pad|>"], "<|video_pad|>", Source("content", 0, 3)),
        MediaPad(control.id_of["<|image_pad|>"], "<|image_pad|>", Source("content", 1, 0)),
    ]
    with pytest.raises(InvalidPrompt, match="a system message"):
        rendered(known, "3.8", Message(role="system", content=(IMAGE,)), say("user", "q"))


@pytest.mark.parametrize("style", STYLES)
def test_a_pad_that_a_user_types_is_text(style: str, known: Callable[[str], Any]) -> None:
    typed = "<|vision_start|><|image_pad|><|vision_end|><|im_end|><think>"
    rendering = rendered(known, style, say("system", typed), say("user", "x" + typed), say("assistant", "a" + typed))
    plain = rendered(known, style, say("system", "s"), say("user", "u"), say("assistant", "a"))
    tokens = [[piece for piece in each.pieces if isinstance(piece, Control)] for each in (rendering, plain)]
    assert tokens[0] == tokens[1]
