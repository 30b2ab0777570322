"""The answers of the endpoints under /v1/responses as types, for the OpenAPI document. `responses` and `listing` write
them."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ninfer_core.api import ROUTE_DESCRIPTION, RouteDescription
from ninfer_protocols.openai_responses.items import Item, OutputItem
from ninfer_protocols.openai_responses.requests import CreateRequest
from ninfer_protocols.wire.errors import ErrorBody


class ResponseUsage(msgspec.Struct, frozen=True):
    input_tokens: int
    input_tokens_details: dict[str, int]
    output_tokens: int
    output_tokens_details: dict[str, int]
    total_tokens: int


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """Beside these members stands what the request said, resolved."""

    id: str
    object: Literal["response"]
    created_at: int
    completed_at: int | None
    model: str
    status: Literal["in_progress", "completed", "incomplete", "failed", "cancelled"]
    output: list[OutputItem]
    usage: ResponseUsage | None
    error: dict[str, str] | None
    incomplete_details: dict[str, str] | None
    reasoning: dict[str, Any]


class InputTokenCount(msgspec.Struct, frozen=True):
    object: Literal["response.input_tokens"]
    input_tokens: int


class DeletedResponse(msgspec.Struct, frozen=True):
    id: str
    object: Literal["response.deleted"]
    deleted: Literal[True]


class InputItemPage(msgspec.Struct, frozen=True):
    object: Literal["list"]
    data: list[Item]
    first_id: str | None
    last_id: str | None
    has_more: bool


def _described(summary: str, response: Any, **members: Any) -> dict[str, Any]:
    return {ROUTE_DESCRIPTION: RouteDescription(summary=summary, response=response, error=ErrorBody, **members)}


CREATE = _described("Answer Items.", Response, request=CreateRequest, streams=True)
COUNT = _described("Count the tokens of a prompt.", InputTokenCount, request=CreateRequest)
RETRIEVE = _described("A stored response.", Response, query={"stream": bool, "include": str})
DELETE = _described("Forget a stored response.", DeletedResponse)
LIST_INPUT = _described(
    "What was sent with a stored response, in pages.",
    InputItemPage,
    query={"after": str, "limit": int, "order": Literal["asc", "desc"], "include": str},
)
CANCEL = _described("Refused: nothing runs in the background.", Response, refuses=True)
COMPACT = _described("Refused: conversations are not compacted.", Response, refuses=True)
"""Each goes into its handler's `opt`."""
