"""Numbers as people read them."""

from __future__ import annotations

GIB = 2**30
MIB = 2**20
KIB = 2**10


def format_bytes(count: int) -> str:
    """`53.68 GiB`, `144.0 MiB`, `1.5 KiB`, `12 B`."""
    size = abs(count)
    if size >= GIB:
        return f"{count / GIB:.2f} GiB"
    if size >= MIB:
        return f"{count / MIB:.1f} MiB"
    if size >= KIB:
        return f"{count / KIB:.1f} KiB"
    return f"{count} B"


def ceiling_divide(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)
