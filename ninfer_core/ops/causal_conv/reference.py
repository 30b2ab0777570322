"""Causal convolution in plain torch."""

from __future__ import annotations

import torch

from ninfer_core.ops.activation import silu


def prefill(
    x: torch.Tensor, weight: torch.Tensor, ring: torch.Tensor, slots: torch.Tensor, lengths: torch.Tensor
) -> torch.Tensor:
    """x [rows, columns, channels] -> [rows, columns, channels]; the last width − 1 columns are left in the ring."""
    columns = x.shape[1]
    return _run(x, weight, ring, slots, lengths, max(columns - weight.shape[1] + 1, 0))


def decode(
    x: torch.Tensor, weight: torch.Tensor, ring: torch.Tensor, slots: torch.Tensor, lengths: torch.Tensor
) -> torch.Tensor:
    """x [rows, columns, channels] -> [rows, columns, channels]; all columns are left in the ring."""
    assert weight.shape[1] - 1 + x.shape[1] <= ring.shape[1], f"a ring of {ring.shape[1]} for {x.shape[1]} columns"
    return _run(x, weight, ring, slots, lengths, 0)


def _run(
    x: torch.Tensor, weight: torch.Tensor, ring: torch.Tensor, slots: torch.Tensor, lengths: torch.Tensor, first: int
) -> torch.Tensor:
    """Convolve, and leave the columns from `first` on in the ring."""
    columns, kept = x.shape[1], weight.shape[1] - 1
    place = slots.unsqueeze(1)
    before = lengths.unsqueeze(1) + torch.arange(-kept, 0, device=x.device)  # [rows, kept]
    history = ring[place, before % ring.shape[1]].masked_fill((before < 0).unsqueeze(2), 0)
    after = lengths.unsqueeze(1) + torch.arange(first, columns, device=x.device)
    ring[place, after % ring.shape[1]] = x[:, first:]
    return _convolve(torch.cat((history, x), dim=1), weight, columns)


def _convolve(window: torch.Tensor, weight: torch.Tensor, columns: int) -> torch.Tensor:
    """window [rows, width − 1 + columns, channels] -> [rows, columns, channels]."""
    taps = weight.float()
    total = window[:, :columns].float() * taps[:, 0]
    for tap in range(1, taps.shape[1]):
        total = torch.addcmul(total, window[:, tap : tap + columns].float(), taps[:, tap])
    return silu(total).to(window.dtype)
