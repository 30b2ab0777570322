"""Plain text tables: columns as wide as they need to be, two spaces between them."""

from __future__ import annotations

from collections.abc import Sequence


def table(header: Sequence[str] | None, rows: Sequence[Sequence[str]]) -> str:
    """Rows of one length each, with no space at the end of a line."""
    lines = [*([header] if header else []), *rows]
    if not lines:
        return ""
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
