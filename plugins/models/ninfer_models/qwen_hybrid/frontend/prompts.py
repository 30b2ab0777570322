"""From a resolved request to a prompt, by one of two ways that is chosen when the frontend is built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ninfer_core.api import (
    ContextLengthExceeded,
    Frontier,
    GenerationRequest,
    InvalidPrompt,
    Message,
    TemplateOptions,
    TextPart,
)
from ninfer_models.qwen_hybrid.frontend.capabilities import TemplateProfile
from ninfer_models.qwen_hybrid.frontend.messages import refuse_media, template_messages, template_tools
from ninfer_models.qwen_hybrid.frontend.options import template_variables
from ninfer_models.qwen_hybrid.frontend.renderer import StructuredRenderer, tokenize
from ninfer_models.qwen_hybrid.frontend.template import MAX_PROMPT_CHARACTERS, ChatTemplate, RenderedPrompt
from ninfer_models.qwen_hybrid.frontend.tokenizer import QwenTokenizer


class Prompt(NamedTuple):
    rendered: RenderedPrompt
    token_ids: tuple[int, ...]
    frontiers: tuple[Frontier, ...]


class PromptMaker(Protocol):
    def make(self, request: GenerationRequest, resolved: TemplateOptions, most_tokens: int | None) -> Prompt:
        """Raises InvalidPrompt, RequestError `vision_disabled`, and ContextLengthExceeded for what is sure to have more
        than `most_tokens`."""
        ...


class TemplatePrompts:
    """The artifact's template alone renders: its structure is not known."""

    def __init__(self, template: ChatTemplate, profile: TemplateProfile, tokenizer: QwenTokenizer) -> None:
        self._template = template
        self._profile = profile
        self._tokenizer = tokenizer

    def make(self, request: GenerationRequest, resolved: TemplateOptions, most_tokens: int | None) -> Prompt:
        if request.continue_final:
            raise InvalidPrompt(
                "a final assistant message cannot be continued with this model's chat template, whose structure is not "
                f"known ({self._profile.capabilities.renderer_reason}); end with a user message",
                param="messages",
            )
        rendered = self._template.render(
            {
                "messages": template_messages(request.messages, system_anywhere=self._profile.system_anywhere),
                "tools": template_tools(request.tools),
                "add_generation_prompt": True,
                **template_variables(request.template, resolved),
            }
        )
        check_unicode(rendered.text)
        check_length(rendered, self._tokenizer, most_tokens)
        return Prompt(rendered, self._tokenizer.encode(rendered.pieces), ())


class StructuredPrompts:
    """The template's structure is known: segments, system turns anywhere, frontiers."""

    def __init__(self, renderer: StructuredRenderer, profile: TemplateProfile, tokenizer: QwenTokenizer) -> None:
        self._renderer = renderer
        self._profile = profile
        self._tokenizer = tokenizer

    def make(self, request: GenerationRequest, resolved: TemplateOptions, most_tokens: int | None) -> Prompt:
        messages = request.messages
        if not messages:
            raise InvalidPrompt("there are no messages; send at least one user message", param="messages")
        refuse_media(messages)
        if request.continue_final:
            thinks = self._profile.always_thinks if resolved.enable_thinking is None else resolved.enable_thinking
            check_continuation(messages, thinks=thinks)
        options = TemplateOptions(**template_variables(request.template, resolved))
        rendering = self._renderer.render(
            messages, request.tools, options, cache_marks=request.cache_marks, continue_final=request.continue_final
        )
        rendered = RenderedPrompt(rendering.text, rendering.pieces)
        if len(rendered.text) > MAX_PROMPT_CHARACTERS:
            raise InvalidPrompt(
                f"the rendered conversation has {len(rendered.text)} characters, over the limit of "
                f"{MAX_PROMPT_CHARACTERS}; send less",
                param="messages",
            )
        check_unicode(rendered.text)
        check_length(rendered, self._tokenizer, most_tokens)
        return Prompt(rendered, *tokenize(rendering, self._tokenizer))


def check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidPrompt("the conversation holds half of a surrogate pair; send valid Unicode") from error


def check_length(rendered: RenderedPrompt, tokenizer: QwenTokenizer, most_tokens: int | None) -> None:
    """Raises ContextLengthExceeded. Whatever made the prompt long is seen here: tools, calls and thoughts too."""
    if most_tokens is None:
        return
    fewest = tokenizer.fewest_tokens(rendered.pieces)
    if fewest > most_tokens:
        raise ContextLengthExceeded(prompt_tokens=fewest, max_context=most_tokens, at_least=True)


def check_continuation(messages: Sequence[Message], *, thinks: bool) -> None:
    """Whether the last message can be left open (contract ANTH-3, ANTH-4). Raises InvalidPrompt."""
    last, where = messages[-1], f"messages[{len(messages) - 1}]"
    if last.role != "assistant":
        raise InvalidPrompt(
            f"{where} is a {last.role} message; only an assistant message can be continued", param=where
        )
    if last.reasoning or last.tool_calls or not all(isinstance(part, TextPart) for part in last.content):
        raise InvalidPrompt(
            f"{where} is to be continued and has more than text; send it without thinking, tool calls and media",
            param=where,
        )
    if thinks:
        raise InvalidPrompt(
            f"{where} is to be continued, which begins in the answer, and thinking is on; switch thinking off or end "
            "with a user message",
            param=where,
        )
