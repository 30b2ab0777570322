"""The artifact's own chat template, run as sandboxed Jinja with bounds, into text and control tokens.

The text is exactly what the template writes, in the environment that transformers gives it: block trimming,
loop controls, plain JSON, `raise_exception`, `strftime_now` (docs/model.md, "Templates").
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2 import meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ninfer_core.api import ArtifactInvalid, InvalidPrompt
from ninfer_models.qwen_hybrid.frontend.control_tokens import ControlTokens
from ninfer_models.qwen_hybrid.frontend.marking import TokenMarker
from ninfer_models.qwen_hybrid.frontend.tokenizer import Control, Piece

MAX_PROMPT_CHARACTERS = 1 << 26
"""Bound of one rendered prompt: 64 Mi characters, hundreds of times what a million tokens of context can hold."""

_CONVERSATION_FAULTS = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What a template's code raises when a conversation is not shaped as it expects."""


@dataclass(frozen=True, slots=True)
class RenderedPrompt:
    """`pieces` joined are `text`."""

    text: str
    pieces: tuple[Piece, ...]


def json_text(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _environment() -> jinja2.Environment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = json_text
    environment.globals["raise_exception"] = _raise_exception
    return environment


class ChatTemplate:
    """One template and its marked twin.

    `special_tokens` are the template variables `bos_token`, `eos_token`, ... of `tokenizer_config.json`. `variables`
    are the names that the template looks up outside itself.
    """

    def __init__(
        self, source: str, template: bytes, control: ControlTokens, special_tokens: Mapping[str, str] | None = None
    ) -> None:
        self._control = control
        self._mark = secrets.token_hex(16)  # nobody who writes a conversation can know it
        self._marked_token = re.compile(f"{self._mark}({control.pattern.pattern})")
        marker = TokenMarker(self._mark, control.pattern)
        environment = _environment()
        try:
            text = template.decode()
            tree = environment.parse(text)
            marker.tree(tree)
            # Of a tree of its own: the search changes the one it is given.
            self.variables = frozenset(meta.find_undeclared_variables(environment.parse(text)))
            self._plain = environment.from_string(text)
            self._marked = environment.from_string(tree)
        except (UnicodeDecodeError, jinja2.TemplateError, RecursionError) as error:
            raise ArtifactInvalid(f"{source}: chat_template.jinja", [f"it is not a Jinja template: {error}"]) from error
        self._special_tokens = dict(special_tokens or {})
        self._marked_special_tokens = {name: marker.text(token) for name, token in self._special_tokens.items()}

    def render(self, variables: Mapping[str, Any]) -> RenderedPrompt:
        """Render one conversation. InvalidPrompt carries the template's own message when it refuses."""
        now = datetime.now()
        shared: dict[str, Any] = {"documents": None, "strftime_now": now.strftime, **variables}
        text = _run(self._plain, {**self._special_tokens, **shared})
        marked = _run(self._marked, {**self._marked_special_tokens, **shared})
        pieces = tuple(self._pieces(marked))
        if "".join(piece if isinstance(piece, str) else piece.text for piece in pieces) != text:
            raise InvalidPrompt(
                "the model's chat template decides by control tokens that it wrote itself, so they cannot be told "
                "from the same text in this conversation",
                param="messages",
            )
        return RenderedPrompt(text, pieces)

    def unmarked_control_tokens(self, rendered: RenderedPrompt) -> list[str]:
        """Control tokens that stand in the text pieces of a rendering."""
        texts = [piece for piece in rendered.pieces if isinstance(piece, str)]
        return [match[0] for text in texts for match in self._control.pattern.finditer(text)]

    def _pieces(self, marked: str) -> Iterator[Piece]:
        end = 0
        for match in self._marked_token.finditer(marked):
            if match.start() > end:
                yield marked[end : match.start()]
            yield Control(self._control.id_of[match[1]], match[1])
            end = match.end()
        if end < len(marked):
            yield marked[end:]


def _run(template: jinja2.Template, variables: Mapping[str, Any]) -> str:
    written: list[str] = []
    size = 0
    try:
        for chunk in template.generate(variables):
            size += len(chunk)
            if size > MAX_PROMPT_CHARACTERS:
                raise InvalidPrompt(
                    f"the rendered conversation is over {MAX_PROMPT_CHARACTERS} characters; send less", param="messages"
                )
            written.append(chunk)
    except _CONVERSATION_FAULTS as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidPrompt(
            f"the model's chat template refuses this conversation: {reason}", param="messages"
        ) from error
    return "".join(written)
