"""Mixture of experts: see `ninfer_core.ops.moe`."""

from __future__ import annotations

from ninfer_core.ops.workspace import FLOAT32, INT64, swiglu


def routing_bytes(*, rows: int, experts: int, activation: int) -> int:
    """Scores as given and in float32, probabilities, sorted with their experts. `rows` are padded ones."""
    return rows * experts * (activation + 3 * FLOAT32 + INT64)


def prefill_bytes(*, tokens: int, per_token: int, hidden: int, width: int, activation: int) -> int:
    """Inputs and outputs of every pair of token and expert, ordered and in their places, weighted in float32."""
    pairs = tokens * per_token
    grouped = pairs * (3 * hidden * activation + 2 * hidden * FLOAT32 + 4 * INT64)
    return grouped + _inner(pairs, width, activation)


def decode_bytes(*, tokens: int, hidden: int, width: int, activation: int) -> int:
    """The matrices of one expert of every token, its inner values, and the sum in float32."""
    matrices = tokens * 3 * width * hidden * activation
    return matrices + _inner(tokens, width, activation) + 3 * tokens * hidden * FLOAT32


def _inner(rows: int, width: int, activation: int) -> int:
    gate_up = 2 * rows * width * activation
    return gate_up + swiglu.workspace_bytes(elements=rows * width, activation=activation)
