"""Read one call, in text that arrives in any cuts.

Every character is looked at a bounded number of times. Names and values are gathered in pieces, so that what is
read again with new text is never longer than a tag.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ninfer_core.api import FallbackReason, ParsedToolCall
from ninfer_models.qwen_hybrid.frontend.tool_calls.grammar import (
    CALL_CLOSE,
    FUNCTION_CLOSE,
    FUNCTION_OPEN,
    NAME_END,
    PARAMETER_CLOSE,
    PARAMETER_OPEN,
    VALUE_TAG,
    skip_blank,
    unfinished_tag,
)
from ninfer_models.qwen_hybrid.frontend.tool_calls.types import DeclaredTools
from ninfer_models.qwen_hybrid.frontend.tool_calls.values import Omitted, convert


@dataclass(slots=True)
class ReadCall:
    """A call with what its conversion counted."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    empty_arguments_omitted: int = 0
    schema_mismatches: int = 0

    def parsed(self) -> ParsedToolCall:
        return ParsedToolCall(self.name, self.arguments)


class CallReader:
    """Reads what follows `<tool_call>`, up to and with `</tool_call>`.

    Reading is over when `done`: then `failure` says what is wrong, or `call` is the call. `rest` is text that was
    pushed and not read: what follows the call, or what stands where something else had to stand.
    """

    def __init__(self, tools: DeclaredTools) -> None:
        self._tools = tools
        self._text = ""
        self._at = 0
        self._step: Callable[[], bool] = self._before_function
        self._gathered: list[str] = []
        self._gathered_characters = 0
        self._keys: set[str] = set()
        self._key = ""
        self._depth = 0
        self.call: ReadCall | None = None
        self.failure: FallbackReason | None = None
        self.done = False

    @property
    def rest(self) -> str:
        return self._text[self._at :]

    def push(self, text: str) -> None:
        assert not self.done
        self._text = self.rest + text
        self._at = 0
        while self._step():
            pass

    # Steps. Each reads on from `_at` and says whether the next one can go on with the text at hand.

    def _before_function(self) -> bool:
        if self._tag((FUNCTION_OPEN,)) is None:
            return False
        self._step = self._name
        return True

    def _name(self) -> bool:
        end = self._gather()
        if self._gathered_characters > self._tools.longest_name:
            return self._fail("invalid_tool_name")
        return end is not None and self._name_ended(end)

    def _name_ended(self, end: str) -> bool:
        if end != ">":
            return self._fail("malformed_structure")
        self._at += 1
        return self._function(self._take_gathered())

    def _function(self, name: str) -> bool:
        refusal = self._tools.refusal(name)
        if refusal is not None:
            return self._fail(refusal)
        self.call = ReadCall(name)
        self._step = self._body
        return True

    def _body(self) -> bool:
        tag = self._tag((PARAMETER_OPEN, FUNCTION_CLOSE))
        if tag is None:
            return False
        self._step = self._parameter_key if tag == PARAMETER_OPEN else self._after_function
        return True

    def _parameter_key(self) -> bool:
        end = self._gather()
        if end is None:
            return False
        key = self._take_gathered()
        if end != ">" or not key:
            return self._fail("malformed_structure")
        self._at += 1
        self._key = key
        self._depth = 1
        self._step = self._value
        if key in self._keys:
            return self._duplicate()
        self._keys.add(key)
        return True

    def _duplicate(self) -> bool:
        return self._fail("duplicate_parameter")

    def _value(self) -> bool:
        found = VALUE_TAG.search(self._text, self._at)
        if found is None:
            cut = unfinished_tag(self._text, self._at, (PARAMETER_OPEN, PARAMETER_CLOSE))
            self._gather_to(cut)
            return False
        if found[0] == PARAMETER_OPEN:
            self._gather_to(found.end())
            self._step = self._nested_key_start
            return True
        self._depth -= 1
        if self._depth:
            self._gather_to(found.end())
            return True
        self._gather_to(found.start())
        self._at = found.end()
        self._argument(self._take_gathered())
        self._step = self._body
        return True

    def _nested_key_start(self) -> bool:
        """Directly after `<parameter=` inside a value: an opener only if a name and `>` follow."""
        if self._at == len(self._text):
            return False
        self._step = self._value if self._text[self._at] == ">" else self._nested_key
        return True

    def _nested_key(self) -> bool:
        end = self._gather()
        if end is None:
            return False
        self._depth += end == ">"
        self._step = self._value
        return True

    def _argument(self, text: str) -> None:
        assert self.call is not None
        types, known = self._tools.types(self.call.name, self._key)
        converted = convert(text, types)
        if converted.value is Omitted:
            self.call.empty_arguments_omitted += 1
            return
        self.call.arguments[self._key] = converted.value
        self.call.schema_mismatches += converted.mismatch or not known

    def _after_function(self) -> bool:
        if self._tag((CALL_CLOSE,)) is None:
            return False
        return self._end()

    # Helpers.

    def _tag(self, tags: tuple[str, ...]) -> str | None:
        """After blanks, take one of `tags`. None when more text is needed, or when reading failed."""
        self._at = skip_blank(self._text, self._at)
        for tag in tags:
            if self._text.startswith(tag, self._at):
                self._at += len(tag)
                return tag
        if not any(tag.startswith(self.rest) for tag in tags):
            self._fail("malformed_structure")
        return None

    def _gather(self) -> str | None:
        """Gather a name up to the character that ends it, which is not taken; None when it has not come yet."""
        found = NAME_END.search(self._text, self._at)
        self._gather_to(len(self._text) if found is None else found.start())
        return None if found is None else found[0]

    def _gather_to(self, end: int) -> None:
        self._gathered.append(self._text[self._at : end])
        self._gathered_characters += end - self._at
        self._at = end

    def _take_gathered(self) -> str:
        text = "".join(self._gathered)
        self._gathered.clear()
        self._gathered_characters = 0
        return text

    def _fail(self, reason: FallbackReason) -> bool:
        self.failure = reason
        return self._end()

    def _end(self) -> bool:
        self.done = True
        return False
