"""Writes a conversation as segments, by the layout and one dialect.

Where the template accepts a conversation the text is the template's. Beyond it: system-class messages may stand
anywhere, each as a ChatML block of its own (contract CHAT-38, decision 20), and a final assistant message may be
left open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ninfer_core.api import CacheMark, FrontierKind, InvalidPrompt, MediaPart, Message, TemplateOptions, ToolDefinition
from ninfer_models.qwen_hybrid.frontend.control_tokens import THINK_CLOSE, THINK_OPEN, ControlTokens
from ninfer_models.qwen_hybrid.frontend.renderer.cache_places import with_cache_marks
from ninfer_models.qwen_hybrid.frontend.renderer.dialect import Dialect
from ninfer_models.qwen_hybrid.frontend.renderer.layout import RESPONSE_CLOSE, RESPONSE_OPEN, Layout
from ninfer_models.qwen_hybrid.frontend.renderer.segments import Mark, Rendering, RequestText, Segment, Source
from ninfer_models.qwen_hybrid.frontend.renderer.sourced_text import SourcedText
from ninfer_models.qwen_hybrid.frontend.renderer.values import argument_text, definition_text

_SYSTEM_CLASS = ("system", "developer")


class StructuredRenderer:
    """Holds no state of requests."""

    def __init__(self, dialect: Dialect, control: ControlTokens) -> None:
        self.dialect = dialect
        self._control = control
        self._layout = Layout.of(control)

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolDefinition],
        options: TemplateOptions,
        *,
        cache_marks: Sequence[CacheMark] = (),
        continue_final: bool = False,
    ) -> Rendering:
        """`options` are what a template would be given: None is a variable that is not set.

        With `continue_final` the last message is an assistant message of text alone and thinking is off; the caller
        has checked that. Raises InvalidPrompt where the template would refuse.
        """
        contents = [self._content(message, index) for index, message in enumerate(messages)]
        written = _Written()
        conversation = _Conversation(
            messages=messages[:-1] if continue_final else messages,
            contents=contents,
            question=self._question(messages, contents),
            preserves=self.dialect.preserves if options.preserve_thinking is None else options.preserve_thinking,
        )
        self._leading_turn(written, conversation, tools, options)
        for index, message in enumerate(conversation.messages):
            if index == conversation.first_answer:
                written.mark("turn")
            self._message(written, conversation, index, message)
            written.mark("message", index)
        if conversation.first_answer is None:
            written.mark("turn")
        written.mark("generation")
        written.add(self.dialect.prologues[options.enable_thinking])
        if continue_final:
            written.add(self._unstripped(messages[-1], len(messages) - 1).lstrip().segments)
        return Rendering(tuple(written.segments), with_cache_marks(written.segments, written.marks, cache_marks))

    def _content(self, message: Message, index: int) -> SourcedText:
        """Stripped at both ends, as templates do with every message."""
        if any(isinstance(part, MediaPart) for part in message.content):
            self._check_media(message, index)
        return self._unstripped(message, index).strip()

    def _unstripped(self, message: Message, index: int) -> SourcedText:
        return SourcedText.of_parts(message.content, index, self._control)

    def _check_media(self, message: Message, index: int) -> None:
        if message.role in _SYSTEM_CLASS or not self.dialect.media:
            where = f"a {message.role} message" if self.dialect.media else "a conversation"
            raise InvalidPrompt(
                f"messages[{index}] has an image or a video, and this model's chat template has no place for it in "
                f"{where}; send text there",
                param=f"messages[{index}].content",
            )

    def _question(self, messages: Sequence[Message], contents: Sequence[SourcedText]) -> int:
        """Index of the last user message that is not wholly a tool's result."""
        for index in range(len(messages) - 1, -1, -1):
            text = contents[index].text
            if messages[index].role == "user" and not (
                text.startswith(RESPONSE_OPEN) and text.endswith(RESPONSE_CLOSE)
            ):
                return index
        raise InvalidPrompt(self.dialect.no_question, param="messages")

    def _leading_turn(
        self, written: _Written, conversation: _Conversation, tools: Sequence[ToolDefinition], options: TemplateOptions
    ) -> None:
        """The system turn that the template composes (contract CHAT-39): preamble, tools, the instruction."""
        instruction = conversation.contents[0] if conversation.leads_with_instruction else SourcedText(())
        preamble = self.dialect.preambles[options.enable_thinking, options.reasoning_effort]
        blocks = [block for block in (preamble, self._tools(tools), instruction.segments) if block]
        if not blocks and not (conversation.leads_with_instruction and self.dialect.keeps_empty_system_turn):
            return
        written.add(self._layout.system_open)
        for place, block in enumerate(blocks):
            written.add(block)
            if place < len(blocks) - 1:
                written.add(self._layout.paragraph)
            if tools and place == bool(preamble):
                written.mark("tools")
        written.add(self._layout.turn_close)
        written.mark("system")

    def _tools(self, tools: Sequence[ToolDefinition]) -> tuple[Segment, ...]:
        if not tools:
            return ()
        lines: list[Segment] = []
        for index, tool in enumerate(tools):
            source = Source("tool_definition", part=index)
            lines += [*self._layout.tool_line, RequestText(definition_text(tool.definition), source)]
        return (*self.dialect.tools_head, *lines, *self.dialect.tools_foot)

    def _message(self, written: _Written, conversation: _Conversation, index: int, message: Message) -> None:
        content = conversation.contents[index]
        if message.role in _SYSTEM_CLASS:
            if index:
                written.add(self._layout.system_open, content.segments, self._layout.turn_close)
        elif message.role == "user":
            written.add(self._layout.user_open, content.segments, self._layout.turn_close)
        elif message.role == "tool":
            self._result(written, conversation.messages, index, content)
        else:
            self._assistant(written, conversation, index, message)

    def _result(self, written: _Written, messages: Sequence[Message], index: int, content: SourcedText) -> None:
        # A result that is the first message gets no opener: so templates have it.
        if index and messages[index - 1].role != "tool":
            written.add(self._layout.results_open)
        written.add(self._layout.result_open, content.segments, self._layout.result_close)
        if index + 1 == len(messages) or messages[index + 1].role != "tool":
            written.add(self._layout.turn_close)

    def _assistant(self, written: _Written, conversation: _Conversation, index: int, message: Message) -> None:
        reasoning, content = self._divided(message, index, conversation.contents[index])
        written.add(self._layout.assistant_open)
        if index > conversation.question or conversation.preserves:
            written.add(self._layout.think_open, reasoning.strip().segments, self._layout.think_close)
        written.add(content.segments)
        for place, call in enumerate(message.tool_calls):
            if place:
                written.add(self._layout.call_gap)
            elif content.text:
                written.add(self._layout.paragraph)
            self._call(written, index, place, call.name, call.arguments)
        written.add(self._layout.turn_close)

    def _call(self, written: _Written, index: int, place: int, name: str, arguments: dict[str, object]) -> None:
        layout = self._layout
        written.add(layout.call_open, (RequestText(name, Source("tool_name", index, place)),), layout.name_end)
        for key, value in arguments.items():
            text = argument_text(value, self.dialect.scalars, f"messages[{index}].tool_calls[{place}]")
            written.add(layout.argument_open, (RequestText(key, Source("argument_name", index, place)),))
            written.add(layout.name_end, (RequestText(text, Source("argument", index, place)),), layout.argument_close)
        written.add(layout.call_close)

    def _divided(self, message: Message, index: int, content: SourcedText) -> tuple[SourcedText, SourcedText]:
        """Reasoning and answer of an assistant message."""
        if message.reasoning is not None:
            return SourcedText.of(message.reasoning, Source("reasoning", index)), content
        if not self.dialect.reasoning_in_content or THINK_CLOSE not in content.text:
            return SourcedText(()), content
        thought = content[: content.text.index(THINK_CLOSE)].rstrip("\n")
        opened = thought.text.rfind(THINK_OPEN)
        if opened >= 0:
            thought = thought[opened + len(THINK_OPEN) :]
        return thought.lstrip("\n"), content[content.text.rindex(THINK_CLOSE) + len(THINK_CLOSE) :].lstrip("\n")


@dataclass(frozen=True, slots=True)
class _Conversation:
    """`messages` are those that get a closed turn; `question` is the index of the last one a user asks in."""

    messages: Sequence[Message]
    contents: Sequence[SourcedText]
    question: int
    preserves: bool

    @property
    def leads_with_instruction(self) -> bool:
        return self.messages[0].role in _SYSTEM_CLASS

    @property
    def first_answer(self) -> int | None:
        """The first assistant message of the open turn."""
        after = range(self.question + 1, len(self.messages))
        return next((index for index in after if self.messages[index].role == "assistant"), None)


@dataclass(slots=True)
class _Written:
    """The prompt so far."""

    segments: list[Segment] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    def add(self, *written: Sequence[Segment]) -> None:
        for segments in written:
            self.segments.extend(segments)

    def mark(self, kind: FrontierKind, message: int | None = None) -> None:
        self.marks.append(Mark(kind, len(self.segments), message))
