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
from ninfer_core.ops.accept import Acceptor
from ninfer_core.ops.round_start import RoundInputs, SlotState
from ninfer_core.ops.sample import ChosenRows
from ninfer_core.program.cache import PagedCache, attention_routes
from ninfer_core.program.contract import Unit
from ninfer_core.program.drafting import Drafting
from ninfer_core.program.pools import Pools
from ninfer_core.program.transfer import Transfer

ROUND_NUMBERS = 3
"""Numbers of a row that every round is told: its slot, candidates to count, columns to fold."""


class Rounds(Protocol):
    def run(self, rows: int, context_tokens: int) -> torch.Tensor:
        """Launch a round of the first `rows` rows of the round inputs, none of which reaches beyond `context_tokens`:
        -> what is sent of it, on the device; what is launched after the next round may not find that."""
        ...

    def send(self, found: torch.Tensor) -> Unit:
        """The unit that yields what `run` has found."""
        ...


class LaunchedRounds:
    """Every operation is launched by itself, and each row gets one candidate."""

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
        self.columns = 1 + plan.capacities.draft_tokens
        self.token_domain = plan.token_domain
        self.attention = attention_routes(plan, codec, device, plan.kernels)
        self.sampler = sample.select(device, plan.kernels)
        self.start = round_start.select(device, plan.kernels)
        rows = pools.rows
        self.slot_state = SlotState(
            rows.candidates, rows.offered, rows.lengths, rows.block_tables, rows.penalty_counts, rows.sampler_table
        )

    def run(self, rows: int, context_tokens: int) -> torch.Tensor:
        begun = self.begin(rows)
        hidden = self.decode(begun, begun.anchors, None, context_tokens)
        return self.choose(hidden.flatten(0, 1), begun.slots, begun.chosen_positions)

    def send(self, found: torch.Tensor) -> Unit:
        return self._transfer.send(found)

    def begin(self, rows: int) -> RoundInputs:
        """What was taken of the last round becomes the beginning of this one."""
        return self.start(self._transfer.round_inputs[:ROUND_NUMBERS, :rows], self.slot_state, self.columns)

    def decode(
        self, begun: RoundInputs, token_ids: torch.Tensor, features: torch.Tensor | None, context_tokens: int
    ) -> torch.Tensor:
        """The columns of a round, token_ids [rows, columns], leaving `features` -> hidden [rows, columns,
        hidden_size]."""
        planes = self._pools.planes
        batch = ForwardBatch(
            token_ids=token_ids,
            positions=begun.positions.expand(3, *begun.positions.shape),
            cache=PagedCache(self.attention.decode, planes, begun.block_table, begun.lengths, context_tokens),
            state=RecurrentState(self._pools.state, self._pools.records, begun.slots, begun.lengths, begun.folded),
            features=features,
        )
        return self._model.decode(batch)

    def choose(self, hidden: torch.Tensor, slots: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """hidden [rows · columns, hidden_size], positions [rows, columns] of the tokens to choose -> candidates
        int64 [rows, columns], kept in the rows' buffers as well."""
        rows = self.chosen_rows(slots, positions)
        tokens = self.sampler.sample(self._model.logits(hidden), rows, self._pools.rows.candidates)
        return tokens.view(positions.shape)

    def chosen_rows(self, slots: torch.Tensor, positions: torch.Tensor) -> ChosenRows:
        """Those whose tokens are chosen at `positions` [rows, columns]."""
        buffers = self._pools.rows
        return ChosenRows(buffers.sampler_table, buffers.penalty_counts, slots, positions, self.token_domain)


class DraftedRounds:
    """Rounds of the anchor and drafts: each row gets the candidates that `ops.accept` makes of them."""

    def __init__(
        self,
        launched: LaunchedRounds,
        model: Model,
        pools: Pools,
        transfer: Transfer,
        drafting: Drafting,
        acceptor: Acceptor,
    ) -> None:
        self._launched = launched
        self._model = model
        self._pools = pools
        self._transfer = transfer
        self._drafting = drafting
        self.acceptor = acceptor

    def run(self, rows: int, context_tokens: int) -> torch.Tensor:
        """-> [rows, 2 + columns], as `Transfer.send_checked` takes it."""
        launched, buffers = self._launched, self._pools.rows
        begun = launched.begin(rows)
        drafts, columns = self._drafting.propose(begun, context_tokens)
        features = self._drafting.features(rows, launched.columns)
        hidden = launched.decode(begun, columns, features, context_tokens)
        self._drafting.keep(begun.slots, features)
        accepted = self.acceptor.accept(
            self._model.logits(hidden.flatten(0, 1)),
            drafts,
            launched.chosen_rows(begun.slots, begun.chosen_positions),
            buffers.candidates,
            buffers.offered,
        )
        return accepted.packed

    def send(self, found: torch.Tensor) -> Unit:
        return self._transfer.send_checked(found)
