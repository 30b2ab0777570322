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
