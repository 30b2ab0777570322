"""Mixture of experts: see `ninfer_core.ops.moe`."""

from __future__ import annotations

from ninfer_core.ops.workspace import FLOAT32, INT64, swiglu

INT32 = 4


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


def few_bytes(
    *, tokens: int, experts: int, per_token: int, hidden: int, width: int, shared_width: int, activation: int
) -> int:
    """The whole layer in the kernels for few tokens: the normed input and the result, scores, choices, inner values,
    and in float32 what every token gets from each of its experts and from the shared one."""
    choices = experts * FLOAT32 + per_token * (INT32 + FLOAT32) + FLOAT32
    inner = (per_token * width + shared_width) * activation
    return tokens * (2 * hidden * activation + choices + inner + (per_token + 1) * hidden * FLOAT32)


def many_bytes(
    *, tokens: int, experts: int, per_token: int, hidden: int, width: int, shared_width: int, activation: int
) -> int:
    """The whole layer in the kernels for many tokens: the normed input and the result; scores, choices and their
    order; what every token gets from each of its experts; and either inner values or the shared expert."""
    choices = experts * FLOAT32 + per_token * (4 * INT32 + FLOAT32) + FLOAT32
    shared = 2 * shared_width * activation + swiglu.workspace_bytes(elements=shared_width, activation=activation)
    inner = max(per_token * width * activation, shared + hidden * activation)
    kept = (2 + per_token) * hidden * activation
    return tokens * (kept + choices + inner) + (experts + 1) * INT32


def _inner(rows: int, width: int, activation: int) -> int:
    gate_up = 2 * rows * width * activation
    return gate_up + swiglu.workspace_bytes(elements=rows * width, activation=activation)
