"""The gated delta rule column by column, in plain torch."""

from __future__ import annotations

import torch

from ninfer_core.ops.gated_delta.values import DeltaColumns, DeltaRecords, gates, normalised, per_value_head


def decode(
    columns: DeltaColumns,
    state: torch.Tensor,
    records: DeltaRecords,
    slots: torch.Tensor,
    lengths: torch.Tensor,
    accepted: torch.Tensor,
) -> torch.Tensor:
    """-> out float32 [rows, columns, value_heads, value_dim]; folds the last round, then records this one."""
    memory = _fold_layer(state, records, slots, lengths, accepted)
    query, key = normalised(columns)
    decay, beta = gates(columns)
    value = columns.value.float()
    heads = value.shape[2]
    updates: list[torch.Tensor] = []
    outputs: list[torch.Tensor] = []
    for column in range(value.shape[1]):
        k, q = per_value_head(key[:, column], heads), per_value_head(query[:, column], heads)
        decayed = memory * torch.exp(decay[:, column])[..., None, None]
        recalled = torch.matmul(k.unsqueeze(-2), decayed).squeeze(-2)
        update = beta[:, column].unsqueeze(-1) * (value[:, column] - recalled)
        memory = decayed + k.unsqueeze(-1) * update.unsqueeze(-2)
        outputs.append(torch.matmul(q.unsqueeze(-2), memory).squeeze(-2))
        updates.append(update)
    position = lengths.unsqueeze(1) + torch.arange(value.shape[1], device=value.device)
    place = (slots.unsqueeze(1), position % records.key.shape[1])
    for record, new in ((records.key, key), (records.update, torch.stack(updates, 1)), (records.decay, decay)):
        record[place] = new
    return torch.stack(outputs, 1)


def fold(
    state: torch.Tensor, records: DeltaRecords, slots: torch.Tensor, lengths: torch.Tensor, accepted: torch.Tensor
) -> None:
    """state [layers, slots, ...] and records with the same leading axis: commit in place, one layer at a time."""
    for layer in range(state.shape[0]):
        one = DeltaRecords(records.key[layer], records.update[layer], records.decay[layer])
        _fold_layer(state[layer], one, slots, lengths, accepted)


def _fold_layer(
    state: torch.Tensor, records: DeltaRecords, slots: torch.Tensor, lengths: torch.Tensor, accepted: torch.Tensor
) -> torch.Tensor:
    """Commit to `state` [slots, ...] and return what is committed [rows, ...]."""
    memory = state.index_select(0, slots)
    ring = records.key.shape[1]
    position = (lengths - accepted).unsqueeze(1) + torch.arange(ring // 2, device=state.device)
    place = (slots.unsqueeze(1), position % ring)
    key = per_value_head(records.key[place], state.shape[1])
    update, decay = records.update[place], records.decay[place]
    for column in range(key.shape[1]):
        # The same operations in the same order as in decode.
        decayed = memory * torch.exp(decay[:, column])[..., None, None]
        stepped = decayed + key[:, column].unsqueeze(-1) * update[:, column].unsqueeze(-2)
        memory = torch.where((column < accepted)[:, None, None, None], stepped, memory)
    state.index_copy_(0, slots, memory)
    return memory
