"""Causal convolution in plain torch."""

from __future__ import annotations

import torch

from ninfer_core.ops.activation import silu


def prefill(x: torch.Tensor, weight: torch.Tensor, state: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    """x [rows, columns, channels] -> [rows, columns, channels]; all columns are committed."""
    window = torch.cat((state.index_select(0, slots), x), dim=1)
    state.index_copy_(0, slots, window[:, x.shape[1] :])
    return _convolve(window, weight, x.shape[1])


def decode(
    x: torch.Tensor,
    weight: torch.Tensor,
    state: torch.Tensor,
    records: torch.Tensor,
    slots: torch.Tensor,
    accepted: torch.Tensor,
) -> torch.Tensor:
    """x [rows, columns, channels] -> [rows, columns, channels]; folds the last round, then records this one."""
    fold(state.unsqueeze(0), records.unsqueeze(0), slots, accepted)
    columns = x.shape[1]
    records[:, :columns].index_copy_(0, slots, x)
    return _convolve(torch.cat((state.index_select(0, slots), x), dim=1), weight, columns)


def fold(state: torch.Tensor, records: torch.Tensor, slots: torch.Tensor, accepted: torch.Tensor) -> None:
    """state [layers, slots, width − 1, channels], records [layers, slots, columns, channels]: commit in place."""
    kept = state.shape[2]
    window = torch.cat((state.index_select(1, slots), records.index_select(1, slots)), dim=2)
    column = accepted.unsqueeze(1) + torch.arange(kept, device=state.device)  # [rows, kept]
    place = column.view(1, *column.shape, 1).expand(state.shape[0], -1, -1, state.shape[3])
    state.index_copy_(1, slots, window.gather(2, place))


def _convolve(window: torch.Tensor, weight: torch.Tensor, columns: int) -> torch.Tensor:
    """window [rows, width − 1 + columns, channels] -> [rows, columns, channels]."""
    taps = weight.float()
    total = window[:, :columns].float() * taps[:, 0]
    for tap in range(1, taps.shape[1]):
        total = torch.addcmul(total, window[:, tap : tap + columns].float(), taps[:, tap])
    return silu(total).to(window.dtype)
