"""A request body -> the neutral request, and what the answer repeats and keeps of it."""

from __future__ import annotations

from typing import Any

import msgspec

from ninfer_core.api import (
    CacheSession,
    GenerationRequest,
    ModelNotFound,
    SamplingOptions,
    TemplateCapabilities,
)
from ninfer_protocols.openai_responses.history import conversation, has_user_query
from ninfer_protocols.openai_responses.input_items import InputReader
from ninfer_protocols.openai_responses.items import Item
from ninfer_protocols.openai_responses.requests import (
    ENCRYPTED_REASONING,
    CreateRequest,
    check_count_fields,
    check_fields,
    check_values,
)
from ninfer_protocols.openai_responses.store import ResponseStore, Segment, StoredResponse, encode_items
from ninfer_protocols.openai_responses.thinking import template_options
from ninfer_protocols.openai_responses.tools import ToolSet, read_tools
from ninfer_protocols.wire.cache_hints import openai_cache_marks
from ninfer_protocols.wire.errors import invalid_value
from ninfer_protocols.wire.identifiers import response_resource_id
from ninfer_protocols.wire.json import convert, decode_object
from ninfer_protocols.wire.tools import check_tool_count


class ResponseCall(msgspec.Struct, frozen=True, kw_only=True):
    """One request, understood. `echo` holds the fields that the answer repeats as they were sent; `session_key` is
    None for a conversation that nothing is stored of."""

    id: str
    request: GenerationRequest
    stream: bool
    store: bool
    parent: Segment | None
    input_json: bytes
    tools: ToolSet
    include_encrypted: bool
    session_key: str | None
    echo: dict[str, Any]


class ReadBody(msgspec.Struct, frozen=True, kw_only=True):
    """A body whose own fields are in order."""

    wire: CreateRequest
    decoded: dict[str, Any]
    tools: ToolSet


class Lowering:
    """Understands bodies. With `model_id` None any model is taken; `capabilities` are the served template's."""

    def __init__(
        self,
        store: ResponseStore,
        *,
        model_id: str | None,
        capabilities: TemplateCapabilities | None,
        codex: bool,
    ) -> None:
        self._store = store
        self._model_id = model_id
        self._capabilities = capabilities
        self._codex = codex

    def create(self, body: bytes) -> ResponseCall:
        """All steps at once. Raises a RequestError with `param` and `code` for whatever cannot be honoured exactly."""
        read = self.read(body)
        return self.lower(read, self.parent(read))

    def read(self, body: bytes, *, only_count: bool = False) -> ReadBody:
        """What can be understood without the store. `only_count` is for a body whose tokens are counted
        (contract RESP-72, RESP-80). Raises a RequestError with `param` and `code`."""
        decoded = decode_object(body)
        check_tool_count(decoded)
        (check_count_fields if only_count else check_fields)(decoded)
        wire = convert(decoded, CreateRequest)
        self._check_model(wire.model)
        check_values(wire)
        tools = read_tools(
            wire.tools,
            wire.tool_choice,
            parallel=wire.parallel_tool_calls is not False,
            drop_hosted=self._codex,
            ignore_parallel=self._codex,
        )
        return ReadBody(wire=wire, decoded=decoded, tools=tools)

    def parent(self, body: ReadBody) -> StoredResponse | None:
        """What the request continues. Belongs to the event loop of the store."""
        response_id = body.wire.previous_response_id
        return None if response_id is None else self._store.get(response_id, "previous_response_id")

    def lower(self, body: ReadBody, parent: StoredResponse | None) -> ResponseCall:
        """Raises a RequestError with `param` and `code` for whatever cannot be honoured exactly."""
        wire, decoded, tools = body.wire, body.decoded, body.tools
        stored = () if parent is None else parent.segment.items()
        given = self._given(wire, stored)
        template = template_options(
            wire,
            self._capabilities,
            None if parent is None else parent.preserve_thinking,
            ignore_summary=self._codex,
        )
        response_id = response_resource_id("resp")
        keeps = wire.store is not False
        session_key = parent.session_key if parent is not None else (response_id if keeps else None)
        talk = conversation(wire.instructions, stored, given)
        return ResponseCall(
            id=response_id,
            request=GenerationRequest(
                messages=talk.messages,
                tools=tools.effective,
                template=template,
                sampling=SamplingOptions(temperature=wire.temperature, top_p=wire.top_p),
                max_output_tokens=wire.max_output_tokens,
                cache_marks=openai_cache_marks(
                    talk.messages, talk.breakpoints, len(tools.effective), decoded.get("prompt_cache_options")
                ),
                cache_session=None if session_key is None else CacheSession(key=session_key, replaces_endpoint=keeps),
                structural_marks=False,
            ),
            stream=bool(wire.stream),
            store=keeps,
            parent=None if parent is None else parent.segment,
            input_json=encode_items(given),
            tools=tools,
            include_encrypted=ENCRYPTED_REASONING in (wire.include or ()),
            session_key=session_key,
            echo=_echo(wire, decoded, tools),
        )

    def _check_model(self, asked: str | None) -> None:
        """Unlike Chat Completions, a name is required (contract RESP-1)."""
        if not asked:
            served = self._model_id or "the model's id"
            raise invalid_value("model", f"must be the name of the served model: '{served}'")
        if self._model_id is not None and asked != self._model_id:
            raise ModelNotFound(asked=asked[:80], served=self._model_id)

    def _given(self, wire: CreateRequest, stored: tuple[Item, ...]) -> tuple[Item, ...]:
        reader = InputReader({item.id for item in stored}, drop_bare_reasoning=self._codex)
        given = reader.read(wire.input)
        if not given and not has_user_query(stored):
            raise invalid_value(
                "input", "is missing or empty; it may be when previous_response_id leads to a user message"
            )
        return given


def _echo(wire: CreateRequest, decoded: dict[str, Any], tools: ToolSet) -> dict[str, Any]:
    """Fields of the answer that say what was asked for, in the form of OpenAI's object."""
    return {
        "background": False,
        "instructions": wire.instructions,
        "max_output_tokens": wire.max_output_tokens,
        "max_tool_calls": wire.max_tool_calls,
        "metadata": wire.metadata or {},
        "parallel_tool_calls": wire.parallel_tool_calls is not False,
        "previous_response_id": wire.previous_response_id,
        "prompt_cache_key": decoded.get("prompt_cache_key"),
        "safety_identifier": decoded.get("safety_identifier"),
        "service_tier": "default",
        "store": wire.store is not False,
        "temperature": wire.temperature,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": tools.choice,
        "tools": tools.declared,
        "top_logprobs": 0,
        "top_p": wire.top_p,
        "truncation": "disabled",
        "user": decoded.get("user"),
    }
