"""The convolution over a block in one launch, a program for one column and some of its channels."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

CHANNELS = 512
"""Channels of one program."""


def block_conv(
    x: torch.Tensor, base: torch.Tensor, delta: torch.Tensor, residual: torch.Tensor | None = None
) -> torch.Tensor:
    """x [rows, columns, width] -> [rows, columns, width]; see the package."""
    rows, columns, width = x.shape
    taps, groups = delta.shape[2:]
    assert delta.stride()[2:] == (groups, 1), f"coefficients of a column with strides {delta.stride()[2:]}"
    x = x.contiguous()
    y = torch.empty_like(x)
    channels = min(CHANNELS, triton.next_power_of_2(width))
    conv_kernel[(triton.cdiv(width, channels), rows * columns)](
        x,
        base.contiguous(),
        delta,
        None if residual is None else residual.contiguous(),
        y,
        delta.stride(0),
        delta.stride(1),
        columns,
        width,
        groups,
        width // groups,
        TAPS=taps,
        CHANNELS=channels,
        num_warps=2,
    )
    return y


@triton.jit(do_not_specialize=["columns"])
def conv_kernel(
    x,
    base,  # [TAPS, width]
    delta,
    residual,  # or None
    y,
    row_stride,
    column_stride,
    columns,
    width,
    groups,
    group,
    TAPS: tl.constexpr,
    CHANNELS: tl.constexpr,
):
    token = tl.program_id(1).to(tl.int64)
    column = token % columns
    channel = tl.program_id(0) * CHANNELS + tl.arange(0, CHANNELS)
    inside = channel < width
    place = token * width + channel
    factors = delta + (token // columns) * row_stride + column * column_stride + channel // group
    total = tl.zeros([CHANNELS], tl.float32)
    if residual is not None:
        total = tl.load(residual + place, mask=inside, other=0.0).to(tl.float32)
    for tap in tl.static_range(TAPS):
        there = channel < tl.where(column >= tap, width, 0)
        value = tl.load(x + place - tap * width, mask=there, other=0.0).to(tl.float32)
        factor = tl.load(base + tap * width + channel, mask=inside, other=0.0).to(tl.float32)
        factor += tl.load(factors + tap * groups, mask=inside, other=0.0).to(tl.float32)
        total += factor * value
    tl.store(y + place, total.to(y.dtype.element_ty), mask=inside)
