"""What scripted answers are as generated text, and which of them a request gets.

Front and engine need no word about a request's answer beyond its seed: `answer_seed` names the answer and whether
the prompt left a thinking block open, and the program looks both up.
"""

from __future__ import annotations

from collections.abc import Iterable

from ninfer_core.api.errors import InvalidPrompt, RequestError, StartFailed
from ninfer_core.api.frontend import Frontend, ThinkingDefaults
from ninfer_core.api.request import Channel, GenerationRequest, Message, TemplateOptions, TextPart, ToolCall
from ninfer_core.engine.scripted.script import Script, ScriptedAnswer

_QUESTION = Message(role="user", content=(TextPart("?"),))
_REASONING, _CONTENT = "\ue000reasoning\ue001", "\ue000content\ue001"
"""Stand for the texts while the template renders, so that whatever it does to texts is not done to them."""


def answer_seed(number: int, channel: Channel) -> int:
    """The sampling seed that asks for answer `number`, begun in `channel`."""
    return 2 * number + (channel == "reasoning")


def answer_of_seed(seed: int) -> tuple[int, Channel]:
    """The inverse of `answer_seed`."""
    return seed // 2, "reasoning" if seed % 2 else "content"


class AnswerChooser:
    """Which answer is next. Answers that ask for the same text, and those that ask for none, take turns in the
    order of the file, and begin again after the last. Belongs to one thread."""

    def __init__(self, script: Script) -> None:
        self._turns: dict[str | None, list[int]] = {}
        for number, answer in enumerate(script.answers):
            self._turns.setdefault(answer.match, []).append(number)

    def choose(self, request: GenerationRequest) -> int:
        """Texts that the last user message has go first. Raises RequestError `no_scripted_answer`."""
        asked = next((message.text for message in reversed(request.messages) if message.role == "user"), "")
        found = next((match for match in self._turns if match is not None and match in asked), None)
        turns = self._turns.get(found)
        if turns is None:
            raise RequestError(
                "no scripted answer matches the last user message; add one without 'match'", code="no_scripted_answer"
            )
        number = turns.pop(0)
        turns.append(number)
        return number


class AnswerWriter:
    """Writes answers as the model would have to, for the template to show them again as they are."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self._prefix: dict[Channel, str] = {}
        for options in self._options():
            prompt = frontend.prepare(GenerationRequest(messages=(_QUESTION,), template=options), ThinkingDefaults())
            self._prefix[prompt.initial_channel] = prompt.text

    def text(self, answer: ScriptedAnswer, channel: Channel) -> str:
        """What follows a prompt that ends in `channel`. Reasoning is left out where thinking is off.

        Raises StartFailed for a template that does not repeat its own beginning of an answer.
        """
        if answer.raw is not None:
            return answer.raw
        prefix = self._prefix.get(channel)
        if prefix is None:
            return answer.content
        reasoning = answer.reasoning if channel == "reasoning" else ""
        told = Message(
            role="assistant",
            content=(TextPart(_CONTENT),) if answer.content else (),
            reasoning=_REASONING if reasoning else None,
            tool_calls=tuple(ToolCall(name=call.name, arguments=call.arguments) for call in answer.tool_calls),
        )
        text = self._told(channel, told, prefix)
        tail = self._told(channel, Message(role="assistant", content=(TextPart(_CONTENT),)), prefix)
        end = tail.partition(_CONTENT)[2]
        if not text.endswith(end):
            raise StartFailed("the template ends turns in several ways; script 'raw' answers for it")
        return text.removesuffix(end).replace(_REASONING, reasoning).replace(_CONTENT, answer.content)

    def _told(self, channel: Channel, message: Message, prefix: str) -> str:
        """The rendered turn after the beginning that its prompt has already."""
        thinking = self._frontend.capabilities.thinking_toggle
        options = TemplateOptions(enable_thinking=channel == "reasoning" if thinking else None)
        request = GenerationRequest(messages=(_QUESTION, message), template=options)
        try:
            text = self._frontend.prepare(request, ThinkingDefaults()).text
        except InvalidPrompt as error:
            raise StartFailed(f"the template refuses a scripted answer: {error.message}") from error
        if not text.startswith(prefix):
            raise StartFailed("the template shows answers otherwise than it begins them; script 'raw' answers for it")
        return text.removeprefix(prefix)

    def _options(self) -> Iterable[TemplateOptions]:
        if not self._frontend.capabilities.thinking_toggle:
            return (TemplateOptions(),)
        return (TemplateOptions(enable_thinking=True), TemplateOptions(enable_thinking=False))
