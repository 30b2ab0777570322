"""Read one call whose wrapper may be broken (contract TOOL-15)."""

from __future__ import annotations

from ninfer_core.api import FallbackReason
from ninfer_models.qwen_hybrid.frontend.tool_calls.grammar import (
    CALL_CLOSE,
    FUNCTION_CLOSE,
    FUNCTION_OPEN,
    PARAMETER_OPEN,
)
from ninfer_models.qwen_hybrid.frontend.tool_calls.reader import CallReader, ReadCall
from ninfer_models.qwen_hybrid.frontend.tool_calls.types import DeclaredTools


class TolerantReader(CallReader):
    """Reads what follows `opener`, to the end of the function: `</function>`, or `</tool_call>` in its place. The `<`
    before `function=` and the `>` after the name may be missing.

    A complete call is still text when `refused` says why.
    """

    def __init__(self, tools: DeclaredTools, opener: str) -> None:
        super().__init__(tools)
        self.refused: FallbackReason | None = None
        self._bare = opener == FUNCTION_OPEN
        if self._bare:
            self._step = self._name

    @property
    def has_parameters(self) -> bool:
        return bool(self._keys)

    def _before_function(self) -> bool:
        if self._tag((FUNCTION_OPEN, FUNCTION_OPEN.removeprefix("<"))) is None:
            return False
        self._step = self._name
        return True

    def _name_ended(self, end: str) -> bool:
        name = self._take_gathered()
        if end == ">":
            self._at += 1
            return self._function(name)
        return self._function(name.rstrip(" \t"))

    def _function(self, name: str) -> bool:
        """The body of a refused call is read all the same: markup in it is a value. Without a wrapper an undeclared
        name is just text."""
        self.refused = self._tools.refusal(name)
        if self.refused is not None and self._bare:
            return self._fail(self.refused)
        self.call = ReadCall(name)
        self._step = self._body
        return True

    def _body(self) -> bool:
        tag = self._tag((PARAMETER_OPEN, FUNCTION_CLOSE, CALL_CLOSE))
        if tag is None:
            return False
        if tag != PARAMETER_OPEN:
            return self._end()
        self._step = self._parameter_key
        return True

    def _duplicate(self) -> bool:
        self.refused = self.refused or "duplicate_parameter"
        return True

    def _argument(self, text: str) -> None:
        if self.refused is None:
            super()._argument(text)
