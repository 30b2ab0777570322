"""Items in their canonical form: what is stored, what `input_items` lists and what an answer is made of.

Encoding one of them gives the wire form; decoding gives it back.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

ItemStatus = Literal["in_progress", "completed", "incomplete"]
MessageRole = Literal["user", "assistant", "system", "developer"]


class InputText(msgspec.Struct, frozen=True, tag_field="type", tag="input_text"):
    text: str
    prompt_cache_breakpoint: dict[str, Any] | UnsetType = UNSET


class InputImage(msgspec.Struct, frozen=True, tag_field="type", tag="input_image"):
    image_url: str
    detail: Literal["auto"] = "auto"
    prompt_cache_breakpoint: dict[str, Any] | UnsetType = UNSET


class InputVideo(msgspec.Struct, frozen=True, tag_field="type", tag="input_video"):
    """ninfer's extension (contract RESP-29)."""

    video_url: str


class OutputText(msgspec.Struct, frozen=True, tag_field="type", tag="output_text"):
    text: str
    annotations: tuple[dict[str, Any], ...] = ()
    logprobs: tuple[dict[str, Any], ...] = ()


class Refusal(msgspec.Struct, frozen=True, tag_field="type", tag="refusal"):
    refusal: str


class ReasoningText(msgspec.Struct, frozen=True, tag_field="type", tag="reasoning_text"):
    text: str


MessageContent = InputText | InputImage | InputVideo | OutputText | Refusal
OutputContent = InputText | InputImage


class MessageItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="message"):
    id: str
    role: MessageRole
    content: tuple[MessageContent, ...]
    status: ItemStatus = "completed"
    phase: str | UnsetType = UNSET


class ReasoningItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="reasoning"):
    """Raw reasoning; `summary` is what a client sent along and empty in answers (contract RESP-49)."""

    id: str
    summary: tuple[dict[str, Any], ...] = ()
    content: tuple[ReasoningText, ...]
    encrypted_content: str | UnsetType = UNSET
    status: ItemStatus = "completed"


class FunctionCallItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="function_call"):
    """`arguments` is a JSON object in a string."""

    id: str
    call_id: str
    name: str
    namespace: str | UnsetType = UNSET
    arguments: str
    status: ItemStatus = "completed"


class FunctionCallOutputItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="function_call_output"):
    """`name` and `namespace` are assertions about the call that is answered."""

    id: str
    call_id: str
    name: str | UnsetType = UNSET
    namespace: str | UnsetType = UNSET
    output: str | tuple[OutputContent, ...]
    status: ItemStatus = "completed"


Item = MessageItem | ReasoningItem | FunctionCallItem | FunctionCallOutputItem

OutputItem = MessageItem | ReasoningItem | FunctionCallItem


def decode_items(encoded: bytes) -> tuple[Item, ...]:
    """Items that were encoded from this module's types."""
    return msgspec.json.decode(encoded, type=tuple[Item, ...])


def present(value: str | UnsetType) -> str | None:
    """None for what is not there."""
    return None if isinstance(value, UnsetType) else value


def optional(value: str | None) -> str | UnsetType:
    """The opposite of `present`: what is None is left out on the wire."""
    return UNSET if value is None else value
