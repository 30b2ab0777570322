"""What the operations need while they run, in bytes, one module for each operation; and the sizes that they work in.

An operation's own package imports torch. What a plan has to know of it stands here instead, without torch: the
constants that decide the size of its temporaries, which the operation reads from here too, and `workspace_bytes`, an
upper bound of the temporaries and results that are alive at once, arguments not counted. It holds for every route: the
reference operations are counted, and kernels where they may need more; `kernels`, where it is asked for, and functions
of a name with `kernel` or `reference` are about one of the two. Every tensor counts as long as its name is held,
which is what eager torch does.
"""

from __future__ import annotations

FLOAT32, INT64, BOOL = 4, 8, 1
"""Bytes of an element."""

LIBRARY_BYTES = 64 * 1024 * 1024
"""What the matrix library may take for a product of its own: twice the 32 MiB that torch gives it on compute capability
9.0."""


def with_room(needed: int) -> int:
    """What a CUDA device has to have for temporaries of `needed` bytes: torch's allocator leaves holes between those
    that come and go, of which half as much again is allowed for."""
    return needed + needed // 2 + LIBRARY_BYTES
