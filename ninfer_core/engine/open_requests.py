"""Every request that has been taken in and has not ended, and how it ends: what it holds is given back once, before its
last message says so."""

from __future__ import annotations

from ninfer_core.api.errors import RequestError
from ninfer_core.engine.inbox import Inbox
from ninfer_core.engine.publication import Publication
from ninfer_core.engine.records import RequestRecord
from ninfer_core.engine.scheduler import Scheduler
from ninfer_core.program.contract import Program


class OpenRequests:
    """Belongs to the engine's thread. A request holds a place in the inbox, and one in the line or a row."""

    __slots__ = ("_inbox", "_program", "_publication", "_records", "_scheduler")

    def __init__(self, inbox: Inbox, scheduler: Scheduler, program: Program, publication: Publication) -> None:
        self._inbox = inbox
        self._scheduler = scheduler
        self._program = program
        self._publication = publication
        self._records: dict[int, RequestRecord] = {}

    def __contains__(self, request_id: int) -> bool:
        return request_id in self._records

    def find(self, request_id: int) -> RequestRecord | None:
        return self._records.get(request_id)

    def is_open(self, record: RequestRecord) -> bool:
        """Its id may be another request's by now."""
        return self._records.get(record.request_id) is record

    def begin(self, record: RequestRecord) -> None:
        self._records[record.request_id] = record
        self._scheduler.enqueue(record)

    def refuse(self, request_id: int, error: RequestError) -> None:
        """The end of one that never came to have a record."""
        self._inbox.release(request_id)
        self._publication.failed(request_id, error)

    def fail(self, record: RequestRecord, error: RequestError) -> None:
        self._publication.publish_visible()  # what the request has reached comes before its end
        self.release(record)
        self._publication.failed(record.request_id, error)

    def fail_all(self, error: RequestError) -> None:
        for record in self._scheduler.open_records():
            self.fail(record, error)

    def release(self, record: RequestRecord) -> None:
        """Give back everything that the request holds."""
        self._scheduler.remove(record)
        del self._records[record.request_id]
        if record.row is not None:
            self._program.close_row(record.row)
            record.row = None
        self._inbox.release(record.request_id)

    def forget(self) -> None:
        """Of a program that can no longer be told anything."""
        self._records.clear()
