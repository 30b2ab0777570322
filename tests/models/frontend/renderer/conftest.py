"""Templates with their structured renderers, and random conversations by seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from ninfer_models.qwen_hybrid.frontend.capabilities import TemplateProfile, probe
from ninfer_models.qwen_hybrid.frontend.control_tokens import AddedToken, ControlTokens
from ninfer_models.qwen_hybrid.frontend.renderer import Recognition, recognise
from ninfer_models.qwen_hybrid.frontend.template import ChatTemplate
from ninfer_models.qwen_hybrid.frontend.vocabulary import ADDED_TOKENS

from ninfer_core.api import (
    CacheMark,
    GenerationRequest,
    Message,
    Role,
    TemplateOptions,
    TextPart,
    ToolCall,
    ToolDefinition,
)

PIECES = (
    *("plain words", "The plan ", " 12,345.6", "\n", "\n\n", "\r\n", "\t", "  ", "\x1c", "\u2028", "\u00a0", "\ufeff"),
    *("e\u0301", "\u0301", "ﬁ", "한", "\u1112\u1161\u11ab", "你好，世界。", "مرحبا", "👨‍👩‍👧‍👦", "\u200d", "it's I'LL"),
    *(
        "<b>&amp;</b>",
        '{"a": [1, null]}',
        "{{ x }}",
        "{% if %}",
        "'\"\\",
        "def f(x):\n    return x\n",
        "system",
        "user",
    ),
)
CONTROL_LIKE = ("<", "</", "<|im_", "|>", "<think", ">", "think>", "<tool_", *ADDED_TOKENS)
STEERING = ("<think>\n", "\n</think>\n\n", "</think>", "<tool_response>", "</tool_response>", "<tool_call>")


class Generator:
    """Random conversations that templates of the family accept, unless `free` is asked for.

    `spiked` texts hold control tokens and their parts, whole or to be joined.
    """

    def __init__(self, seed: int, *, spiked: bool = True, free: bool = False) -> None:
        self._random = random.Random(seed)
        self._pieces = (*PIECES, *CONTROL_LIKE, *STEERING * 3) if spiked else PIECES
        self._free = free

    def text(self) -> str:
        words = "".join(self._random.choices(self._pieces, k=self._random.randrange(6)))
        if self._pieces is not PIECES and self._random.random() < 0.1:
            return f"<tool_response>{words}</tool_response>"
        return words

    def value(self, depth: int = 0) -> Any:
        kind = self._random.randrange(9 if depth < 3 else 7)
        if kind == 7:
            return [self.value(depth + 1) for _ in range(self._random.randrange(3))]
        if kind == 8:
            return {self.text(): self.value(depth + 1) for _ in range(self._random.randrange(3))}
        number, real = self._random.choice(((0, 1e-7), (-1, -2.5e20), (10**20, 0.1), (7, 1e16)))
        return (self.text(), None, True, False, number, real, 1.0)[kind]

    def message(self, role: Role) -> Message:
        parts = tuple(TextPart(self.text()) for _ in range(self._random.randrange(4)))
        if role != "assistant":
            return Message(role=role, content=parts, call_id="c" if role == "tool" else None)
        calls = self._random.choice((0, 0, 1, 2))
        return Message(
            role=role,
            content=parts,
            reasoning=self._random.choice((None, "", self.text())),
            tool_calls=tuple(
                ToolCall(name=self.text(), arguments={self.text(): self.value() for _ in range(calls)})
                for _ in range(calls)
            ),
        )

    def tool(self) -> ToolDefinition:
        name = self.text()
        function = {"name": name, "description": self.text(), "parameters": {self.text(): self.value()}}
        return ToolDefinition(name=name, parameters={}, definition={"type": "function", "function": function})

    def messages(self) -> tuple[Message, ...]:
        choose = self._random.choice
        roles: list[Role] = [choose(("user", "assistant", "tool")) for _ in range(self._random.randrange(7))]
        roles.insert(self._random.randrange(len(roles) + 1), "user")
        if self._free:
            for _ in range(self._random.randrange(4)):
                roles.insert(self._random.randrange(len(roles) + 1), choose(("system", "developer")))
        elif choose((True, False)):
            roles.insert(0, choose(("system", "developer")))
        return tuple(map(self.message, roles))

    def request(self) -> GenerationRequest:
        choose = self._random.choice
        thinking = choose((True, False, None))
        messages = self.messages()
        return GenerationRequest(
            messages=messages,
            tools=tuple(self.tool() for _ in range(choose((0, 0, 1, 3)))),
            cache_marks=tuple(
                CacheMark(message=choose((None, *range(len(messages)))), part=choose((None, 0, 1, 2))) for _ in range(4)
            ),
            template=TemplateOptions(
                enable_thinking=thinking,
                preserve_thinking=choose((True, False, None)),
            ),
        )


@pytest.fixture(scope="session")
def generator() -> type[Generator]:
    return Generator


@dataclass(frozen=True)
class Known:
    """One template and what was recognised in it."""

    template: ChatTemplate
    profile: TemplateProfile
    found: Recognition

    @property
    def renderer(self) -> Any:
        assert self.found.renderer is not None, self.found.reason
        return self.found.renderer


@pytest.fixture(scope="session")
def control() -> ControlTokens:
    return ControlTokens([AddedToken(content=text, id=1000 + place) for place, text in enumerate(ADDED_TOKENS)])


@pytest.fixture(scope="session")
def known(templates: dict[str, bytes], control: ControlTokens) -> Callable[[str], Known]:
    """By the name of a template, or its text."""

    def build(name: str) -> Known:
        template = ChatTemplate("test", templates.get(name, name.encode()), control)
        profile = probe("test", template)
        return Known(template, profile, recognise(template, profile, control))

    return build
