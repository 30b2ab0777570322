"""The gated activation: see `ninfer_core.ops.swiglu`."""

from __future__ import annotations

from ninfer_core.ops.workspace import FLOAT32


def workspace_bytes(*, elements: int, activation: int) -> int:
    """Gate and up in float32, the gate opened, the product, and the result. `elements` are those of the result."""
    return elements * (activation + 4 * FLOAT32)
