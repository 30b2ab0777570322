"""Query parameters of stored responses, and pages of their input Items (contract RESP-67, RESP-69)."""

from __future__ import annotations

import re
from typing import Any

from litestar.datastructures import MultiDict

from ninfer_core.api import RequestError
from ninfer_protocols.openai_responses.items import decode_items
from ninfer_protocols.openai_responses.store import StoredResponse
from ninfer_protocols.wire.errors import invalid_value

DEFAULT_LIMIT, MAX_LIMIT = 20, 100

Query = MultiDict[Any]


def check_retrieval(query: Query) -> None:
    """A stored response is one object: nothing is streamed again, and nothing more can be included."""
    streamed = query.get("stream") not in (None, "", "false", "False", "0")
    for field, asked in (("stream", streamed), ("starting_after", "starting_after" in query)):
        if asked:
            raise invalid_value(
                field, "a stored response is not streamed again; leave it out", code="stream_recovery_not_supported"
            )
    _check_include(query)


def list_input_items(record: StoredResponse, query: Query) -> dict[str, Any]:
    """A page of what was sent with the request, newest first unless `order` says `asc`."""
    _check_include(query)
    items = list(decode_items(record.segment.input_json))
    if _order(query) == "desc":
        items.reverse()
    if (after := query.get("after")) is not None:
        places = [index for index, item in enumerate(items) if item.id == after]
        if not places:
            raise invalid_value("after", f"{str(after)[:80]!r} is not an Item of this response")
        items = items[places[0] + 1 :]
    page = items[: _limit(query)]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0].id if page else None,
        "last_id": page[-1].id if page else None,
        "has_more": len(page) < len(items),
    }


def _limit(query: Query) -> int:
    written = str(query.get("limit", DEFAULT_LIMIT))
    limit = int(written) if re.fullmatch(r"\d{1,3}", written, re.ASCII) else 0
    if not 1 <= limit <= MAX_LIMIT:
        raise invalid_value("limit", f"is {written[:80]!r}; it must be between 1 and {MAX_LIMIT}")
    return limit


def _order(query: Query) -> str:
    order = str(query.get("order", "desc"))
    if order not in ("asc", "desc"):
        raise invalid_value("order", f"is {order[:80]!r}; it must be 'asc' or 'desc'")
    return order


def _check_include(query: Query) -> None:
    for field in ("include", "include[]"):
        if any(query.getall(field, [])):
            raise RequestError(
                "include: nothing beyond the stored object is kept; leave it out",
                code="include_not_supported",
                param="include",
            )
