"""Mixture of experts: see `ninfer_core.ops.moe`."""

from __future__ import annotations

from ninfer_core.ops.workspace import FLOAT32, INT64, swiglu

INT32 = 4
MOST_TOKENS = 128
"""That the kernels for few tokens take."""


def takes_few(row_class: int) -> bool:
    """Whether they take the rounds of a class; they take no prefill."""
    return 0 < row_class <= MOST_TOKENS


def routing_bytes(*, rows: int, experts: int, activation: int) -> int:
    """Scores as given and in float32, probabilities, sorted with their experts. `rows` are padded ones."""
    return rows * experts * (activation + 3 * FLOAT32 + INT64)


def prefill_bytes(*, tokens: int, per_token: int, hidden: int, width: int, activation: int, coded: bool = False) -> int:
    """Inputs and outputs of every pair of token and expert, ordered and in their places, weighted in float32. `coded`,
    here and below, is whether the matrices are in codes: then one of an expert is decoded at a time."""
    pairs = tokens * per_token
    grouped = pairs * (3 * hidden * activation + 2 * hidden * FLOAT32 + 4 * INT64)
    return grouped + _inner(pairs, width, activation) + (_decoded(hidden, width, activation) if coded else 0)


def decode_bytes(*, tokens: int, hidden: int, width: int, activation: int, coded: bool = False) -> int:
    """The matrices of one expert of every token, its inner values, and the sum in float32."""
    matrices = tokens * (_decoded(hidden, width, activation) if coded else 3 * width * hidden * activation)
    return matrices + _inner(tokens, width, activation) + 3 * tokens * hidden * FLOAT32


def _decoded(hidden: int, width: int, activation: int) -> int:
    """gate ‖ up of an expert in the making: codes, values, values with their block scales, weights in float32,
    weights."""
    return 2 * width * hidden * (1 + 3 * FLOAT32 + activation)


def few_bytes(
    *, tokens: int, experts: int, per_token: int, hidden: int, width: int, shared_width: int, activation: int
) -> int:
    """The whole layer in the kernels for few tokens: the normed input and the result, scores, choices, inner values,
    and in float32 what every token gets from each of its experts and from the shared one."""
    choices = experts * FLOAT32 + per_token * (INT32 + FLOAT32) + FLOAT32
    inner = (per_token * width + shared_width) * activation
    return tokens * (2 * hidden * activation + choices + inner + (per_token + 1) * hidden * FLOAT32)


def many_bytes(
    *, tokens: int, experts: int, per_token: int, hidden: int, width: int, activation: int, coded: bool = False
) -> int:
    """The layer in the kernels for many tokens, the shared expert not counted: the normed input, in codes too, and the
    result; scores, choices and their order; what every token gets from each of its experts, from inner values."""
    choices = experts * FLOAT32 + per_token * (4 * INT32 + FLOAT32) + FLOAT32
    kept = (2 + per_token) * hidden * activation
    codes = hidden + FLOAT32 + per_token * (width // LEAST_SHARING + 1) * FLOAT32 if coded else 0
    return tokens * (kept + choices + codes + per_token * width * activation) + (experts + 1) * INT32


LEAST_SHARING = 16
"""Inner values in codes that share a scale, at least."""


def _inner(rows: int, width: int, activation: int) -> int:
    gate_up = 2 * rows * width * activation
    return gate_up + swiglu.workspace_bytes(elements=rows * width, activation=activation)
