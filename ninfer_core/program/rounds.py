"""The device's part of a decode round: from what it is told of its rows to their next candidates.

Nothing of it is decided by the host but the number of rows, so that the launches of a round can be captured once and
replayed.
"""

from __future__ import annotations

from typing import Protocol

import torch

from ninfer_core.api.kv import KVCodec
from ninfer_core.api.model import ForwardBatch, Model, RecurrentState
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.ops import round_start, sample
from ninfer_core.ops.round_start import SlotState
from ninfer_core.program.cache import PagedCache, attention_routes
from ninfer_core.program.pools import Pools
from ninfer_core.program.transfer import Transfer


class Rounds(Protocol):
    def run(self, rows: int, context_tokens: int) -> torch.Tensor:
        """Launch a round of the first `rows` rows of the round inputs, none of which reaches beyond `context_tokens`:
        -> candidates int64 [rows, columns], on the device; what is launched after the next round may not find them."""
        ...


class LaunchedRounds:
    """Every operation is launched by itself."""

    def __init__(
        self,
        plan: ExecutionPlan,
        model: Model,
        codec: KVCodec,
        pools: Pools,
        transfer: Transfer,
        device: torch.device,
    ) -> None:
        self._model = model
        self._pools = pools
        self._transfer = transfer
        self._columns = 1 + plan.capacities.draft_tokens
        self._token_domain = plan.token_domain
        self.attention = attention_routes(plan, codec, device, plan.kernels)
        self.sampler = sample.select(device, plan.kernels)
        self.start = round_start.select(device, plan.kernels)
        rows = pools.rows
        self.slot_state = SlotState(
            rows.candidates, rows.lengths, rows.block_tables, rows.penalty_counts, rows.sampler_table
        )

    def run(self, rows: int, context_tokens: int) -> torch.Tensor:
        begun = self.start(self._transfer.round_inputs[:, :rows], self.slot_state, self._columns)
        planes = self._pools.planes
        cache = PagedCache(self.attention.decode, planes, begun.block_table, begun.lengths, context_tokens)
        batch = ForwardBatch(
            token_ids=begun.anchors,
            positions=begun.positions.expand(3, rows, self._columns),
            cache=cache,
            state=RecurrentState(self._pools.state, self._pools.records, begun.slots, begun.lengths, begun.folded),
        )
        hidden = self._model.decode(batch)
        return self.choose(hidden.flatten(0, 1), begun.slots, begun.chosen_positions.flatten())

    def choose(self, hidden: torch.Tensor, slots: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """hidden [rows · columns, hidden_size], positions [rows · columns] of the tokens to choose -> candidates
        int64 [rows, columns], kept in the rows' buffers as well."""
        buffers = self._pools.rows
        tokens = self.sampler.sample(
            self._model.logits(hidden),
            buffers.sampler_table,
            buffers.penalty_counts,
            slots,
            positions,
            self._token_domain,
            buffers.candidates,
        )
        return tokens.view(slots.shape[0], -1)
