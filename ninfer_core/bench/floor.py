"""The least a unit of work can take: bytes that it must move, operations that it must do. Pure arithmetic.

A decode round reads every matrix once, of the embedding only its rows, of a layer of experts those that are chosen;
it reads the keys and values of every context, and reads and writes the recurrent state of every row. A prefill
multiplies every token with every matrix but the head, of the experts with those that are chosen, and every query with
the keys and values before it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ninfer_core.api.artifact import TensorSpec
from ninfer_core.api.plan import ExecutionPlan


@dataclass(frozen=True, slots=True)
class Experts:
    """`chosen` of `count` experts work on a token."""

    count: int
    chosen: int

    def share(self, tokens: int) -> float:
        """Expected share of all experts that some of `tokens` choose, if each chooses by chance."""
        return 1.0 - (1.0 - self.chosen / self.count) ** tokens


def experts_of(config: Mapping[str, Any]) -> Experts | None:
    """From an artifact's config, under the names that Hugging Face gives these fields."""
    text = config.get("text_config", config)
    if not text.get("num_experts"):
        return None
    return Experts(int(text["num_experts"]), int(text["num_experts_per_tok"]))


class Floor:
    """Of one plan. `resident` is what the model holds on the device."""

    def __init__(self, plan: ExecutionPlan, resident: Sequence[TensorSpec], experts: Experts | None) -> None:
        self._plan = plan
        vocabulary = plan.geometry.vocabulary_rows
        products = [spec for spec in resident if len(spec.shape) > 1 and not spec.name.endswith("scale")]
        tables = [spec for spec in products if spec.shape[0] == vocabulary]
        # Of two tables the first is the embedding, of which rounds read rows; a single one is the head too.
        unread = tables[0].bytes if len(tables) > 1 else 0
        of_experts = [spec for spec in resident if experts is not None and spec.shape[0] == experts.count]
        of_experts = [spec for spec in of_experts if len(spec.shape) > 2 or spec.name.endswith("scale")]
        self._experts = experts
        self._expert_bytes = sum(spec.bytes for spec in of_experts)
        self._other_bytes = sum(spec.bytes for spec in resident) - self._expert_bytes - unread
        self._expert_numbers = sum(_numbers(spec) for spec in products if spec in of_experts)
        self._other_numbers = sum(_numbers(spec) for spec in products if spec not in of_experts and spec not in tables)

    def decode_bytes(self, rows: int, context_tokens: int) -> float:
        """Of one round of `rows` rows of one column over contexts of that length each."""
        share = 0.0 if self._experts is None else self._experts.share(rows)
        state = 2 * rows * self._plan.geometry.state_bytes
        return self._other_bytes + share * self._expert_bytes + state + rows * self.context_bytes(context_tokens)

    def context_bytes(self, tokens: int) -> int:
        """Keys and values of one row, in all layers."""
        attention = self._plan.geometry.attention
        return tokens * attention.layers * attention.kv_heads * self._plan.kv_layout.bytes

    def prefill_operations(self, tokens: int) -> float:
        """Multiplications and additions of a prompt that begins at nothing."""
        attention = self._plan.geometry.attention
        share = 0.0 if self._experts is None else self._experts.chosen / self._experts.count
        products = 2.0 * tokens * (self._other_numbers + share * self._expert_numbers)
        pairs = tokens * (tokens + 1) / 2
        return products + 4.0 * pairs * attention.layers * attention.query_heads * attention.head_dim


def _numbers(spec: TensorSpec) -> int:
    """uint8 holds two numbers of four bits."""
    return math.prod(spec.shape) * (2 if spec.dtype == "uint8" else 1)
