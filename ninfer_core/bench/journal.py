"""What became of the rows of a campaign, a line for each thing that happened, on the disk as soon as it has.

A campaign that is cut off at any moment leaves a journal from which the next call sees what is done, what was tried
and how long it took. Lines are only ever added; a last one that was cut off is not there.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

FILE = "journal.jsonl"

Event = Literal["begun", "passed", "wrong", "failed"]
"""`wrong`: it was measured, and a check failed. `failed`: it came to no end."""
Standing = Literal["new", "cut", "passed", "wrong", "failed"]
"""The last event of a row. `cut`: it was begun and nothing is known of its end."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """`words` are those of the command that the row is, `code` the digest of the code; `seconds` is what it took, and
    `file` the result that was written."""

    row: str
    words: str
    code: str
    event: Event
    date: str
    seconds: float = 0.0
    message: str = ""
    file: str = ""


class Journal:
    """Of the campaign whose results are in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._entries: list[Entry] = []
        if self._path.exists():
            for line in self._path.read_bytes().splitlines():
                try:
                    self._entries.append(msgspec.json.decode(line, type=Entry))
                except msgspec.MsgspecError:
                    continue

    def note(
        self, row: str, words: str, code: str, event: Event, *, seconds: float = 0.0, message: str = "", file: str = ""
    ) -> None:
        """Add an entry, and return when it is on the disk."""
        entry = Entry(
            row=row,
            words=words,
            code=code,
            event=event,
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=seconds,
            message=message,
            file=file,
        )
        self._entries.append(entry)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file_:
            # Behind a line that was cut off, a new one begins.
            file_.write(b"\n" + msgspec.json.encode(entry) + b"\n")
            file_.flush()
            os.fsync(file_.fileno())

    def last(self, row: str, words: str, code: str) -> Entry | None:
        """The last thing that happened to a row as it is now, on the code that runs."""
        for entry in reversed(self._entries):
            if (entry.row, entry.words, entry.code) == (row, words, code):
                return entry
        return None

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(self._entries)

    def standing(self, row: str, words: str, code: str) -> Standing:
        entry = self.last(row, words, code)
        if entry is None:
            return "new"
        return "cut" if entry.event == "begun" else entry.event

    def seconds(self, row: str, words: str) -> float | None:
        """What the row took when it last came to its end, on whatever code."""
        for entry in reversed(self._entries):
            if (entry.row, entry.words) == (row, words) and entry.event in {"passed", "wrong"}:
                return entry.seconds
        return None
