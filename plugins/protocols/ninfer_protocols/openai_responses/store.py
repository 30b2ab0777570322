"""Stored responses: local to the process, least recently used out first, bounded by records and by bytes (contract
RESP-62 to 71).

A record refers to a chain of segments, one for each response of its conversation, so that a child keeps its context
when an ancestor is deleted or evicted. Segments are shared; each counts once, for as long as a record refers to it.
Everything is kept encoded, so that the account is what the memory holds.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from ninfer_core.api import ErrorCategory, RequestError
from ninfer_protocols.openai_responses.items import Item, decode_items

RECORD_OVERHEAD_BYTES = 768
SEGMENT_OVERHEAD_BYTES = 256
"""Objects, table entries and strings around the encoded bytes, rounded up."""


class ResponseNotFound(RequestError):
    """Never stored, deleted, or evicted (contract ERR-4)."""

    code = "response_not_found"
    category = ErrorCategory.NOT_FOUND

    def __init__(self, response_id: str, param: str | None = None) -> None:
        super().__init__(
            f"no stored response '{response_id[:80]}': it was not stored, was deleted, or made room for others",
            param=param,
        )


class StoreCapacityExceeded(RequestError):
    """One response alone is larger than the store (contract RESP-71)."""

    code = "response_store_capacity_exceeded"

    def __init__(self, *, needed_bytes: int, capacity_bytes: int) -> None:
        super().__init__(
            f"the response and its context take {needed_bytes} bytes, and the store holds {capacity_bytes} "
            "(--response-store-max-mib); send store false, or raise the limit",
            param="store",
        )


@dataclass(slots=True, eq=False)
class Segment:
    """The Items of one exchange. `records` counts the stored responses whose context it is part of."""

    parent: Segment | None
    input_json: bytes
    output_json: bytes
    records: int = 0

    @property
    def bytes(self) -> int:
        return SEGMENT_OVERHEAD_BYTES + sys.getsizeof(self.input_json) + sys.getsizeof(self.output_json)

    def chain(self) -> Iterator[Segment]:
        """From this one to the root."""
        segment: Segment | None = self
        while segment is not None:
            yield segment
            segment = segment.parent

    def items(self) -> tuple[Item, ...]:
        """The whole conversation up to and including this exchange, in order."""
        segments = list(self.chain())
        return tuple(
            item
            for segment in reversed(segments)
            for encoded in (segment.input_json, segment.output_json)
            for item in decode_items(encoded)
        )


@dataclass(slots=True, eq=False)
class StoredResponse:
    """`response_json` is the terminal object. `session_key` leads to the conversation's reuse (contract RESP-65)."""

    id: str
    response_json: bytes
    segment: Segment
    preserve_thinking: bool | None
    session_key: str

    @property
    def bytes(self) -> int:
        """Without its segments, which others may share."""
        return RECORD_OVERHEAD_BYTES + sys.getsizeof(self.response_json)

    @property
    def context_bytes(self) -> int:
        """Of the whole conversation that a child continues."""
        return _chain_bytes(self.segment)


@dataclass(slots=True)
class ResponseStore:
    """Belongs to one event loop. `held_bytes` never exceeds `max_bytes`."""

    max_records: int
    max_bytes: int
    held_bytes: int = 0
    _records: OrderedDict[str, StoredResponse] = field(default_factory=OrderedDict)

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, response_id: str) -> bool:
        return response_id in self._records

    def get(self, response_id: str, param: str | None = None) -> StoredResponse:
        """Marks it as used. Raises ResponseNotFound."""
        record = self._records.get(response_id)
        if record is None:
            raise ResponseNotFound(response_id, param)
        self._records.move_to_end(response_id)
        return record

    def check_room(self, parent: Segment | None, input_json: bytes) -> None:
        """Raise StoreCapacityExceeded, before anything is generated, for what cannot fit whatever the answer is."""
        self._check_own_size(RECORD_OVERHEAD_BYTES + _chain_bytes(Segment(parent, input_json, b"")))

    def put(self, record: StoredResponse) -> None:
        """Keep it, and let go of the least recently used. Raises StoreCapacityExceeded when it cannot fit alone."""
        self._check_own_size(record.bytes + _chain_bytes(record.segment))
        self._records[record.id] = record
        self.held_bytes += record.bytes
        for segment in record.segment.chain():
            self.held_bytes += segment.bytes if segment.records == 0 else 0
            segment.records += 1
        while len(self._records) > self.max_records or self.held_bytes > self.max_bytes:
            self._forget(next(iter(self._records)))

    def delete(self, response_id: str) -> None:
        """Raises ResponseNotFound."""
        self.get(response_id)
        self._forget(response_id)

    def _forget(self, response_id: str) -> None:
        record = self._records.pop(response_id)
        self.held_bytes -= record.bytes
        for segment in record.segment.chain():
            segment.records -= 1
            self.held_bytes -= segment.bytes if segment.records == 0 else 0

    def _check_own_size(self, needed_bytes: int) -> None:
        if needed_bytes > self.max_bytes:
            raise StoreCapacityExceeded(needed_bytes=needed_bytes, capacity_bytes=self.max_bytes)


def encode_items(items: Sequence[Item]) -> bytes:
    return msgspec.json.encode(items)


def _chain_bytes(segment: Segment) -> int:
    return sum(each.bytes for each in segment.chain())
