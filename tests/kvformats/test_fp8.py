"""The fp8 format: its codes bit by bit, in the reference and in the device functions."""

from __future__ import annotations

import pytest
import torch
from ninfer_kvformats.fp8 import Fp8Codec, ninfer_kv_layout

from ninfer_core.testing.kv import KVConformance, RoundTripTolerance, kernel_device
from ninfer_core.testing.manifest import ManifestConformance

LARGEST = 448.0


class TestManifest(ManifestConformance):
    kind = "kv"
    plugin = "fp8@ninfer-kvformats"


class TestCodec(KVConformance):
    plugin = "fp8@ninfer-kvformats"
    # Half a step of 3 bits of fraction; of the row's maximum at most, since larger values have larger steps. A scale
    # that was rounded down makes the maximum saturate, 2^-11 below itself at most, or 2^-7 where it is subnormal.
    tolerance = RoundTripTolerance(name="e4m3, one float16 scale per row", of_row_maximum=2**-4)


def values_of_codes() -> torch.Tensor:
    """float64 [127]: what codes 0 to 126 mean, by the definition of e4m3 (sign, 4 bits of exponent, 3 of fraction)."""
    values = []
    for code in range(127):
        exponent, fraction = code >> 3, code & 7
        values.append((8 + fraction) * 2.0 ** (exponent - 10) if exponent else fraction * 2.0**-9)
    return torch.tensor(values, dtype=torch.float64)


def boundaries() -> tuple[torch.Tensor, torch.Tensor]:
    """float32 inputs at every code, at every middle of two codes and at their neighbours; the codes to expect, ties
    going to the even one."""
    table = values_of_codes()
    middle = ((table[:-1] + table[1:]) / 2).float()
    lower = torch.arange(126)
    tie = lower + (lower % 2)
    inputs = torch.cat(
        (table.float(), middle, middle.nextafter(torch.tensor(0.0)), middle.nextafter(torch.tensor(1e9)))
    )
    codes = torch.cat((torch.arange(127), tie, lower, lower + 1))
    return torch.cat((inputs, -inputs)), torch.cat((codes, codes + 128))


def test_every_code_means_what_the_format_defines() -> None:
    table = values_of_codes()
    codes = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn)
    codec = Fp8Codec(ninfer_kv_layout(256))
    decoded = codec.decode("key", (codes, torch.ones(1, dtype=torch.float16)), torch.float32).double()
    assert torch.equal(decoded[:127], table) and torch.equal(decoded[128:255], -table)
    assert decoded[127].isnan() and decoded[255].isnan()


def test_the_reference_rounds_to_nearest_and_ties_to_even() -> None:
    inputs, expected = boundaries()
    # With the largest code in each row the scale is 1.
    rows = torch.stack((inputs, torch.full_like(inputs, LARGEST)), dim=-1)
    codes, scale = Fp8Codec(ninfer_kv_layout(2)).encode("value", rows)
    assert (scale == 1).all()
    assert torch.equal(codes.view(torch.uint8)[:, 0].long(), expected)


def test_the_device_functions_round_to_nearest_and_ties_to_even() -> None:
    pytest.importorskip("triton")
    device = kernel_device()
    from ninfer_kvformats.fp8.triton import store

    from ninfer_core.testing.kv_kernels import store_rows

    inputs, expected = boundaries()
    rows = torch.nn.functional.pad(inputs, (0, -len(inputs) % 16)).view(-1, 16)
    tokens = 1 << (len(rows) - 1).bit_length()
    values = torch.zeros(tokens, 32)
    values[: len(rows), :16], values[:, 31] = rows, LARGEST
    codes = torch.zeros(tokens, 32, dtype=torch.float8_e4m3fn, device=device)
    scale = torch.zeros(tokens, 1, dtype=torch.float16, device=device)
    every = torch.arange(tokens, device=device)
    planes, written = (codes, scale), torch.ones_like(every, dtype=torch.int32)
    store_rows[(1,)](planes, every, written, values.to(device), STORE=store, TOKENS=tokens, HEAD_DIM=32)
    assert (scale == 1).all()
    found = codes.cpu().view(torch.uint8)[: len(rows), :16].flatten()[: len(inputs)].long()
    assert torch.equal(found, expected)


def test_scales_stay_positive_and_finite() -> None:
    codec = Fp8Codec(ninfer_kv_layout(2))
    rows = torch.tensor([[0.0, 0.0], [1e-9, -1e-9], [1e30, -1e30], [448.0, -224.0]])
    codes, scale = codec.encode("key", rows)
    assert scale[:, 0].tolist() == [2.0**-24, 2.0**-24, 65504.0, 1.0]
    assert codes.float()[2].tolist() == [LARGEST, -LARGEST] and codes.float()[3].tolist() == [LARGEST, -224.0]


@pytest.mark.contract("OPT-22")
def test_a_pair_costs_516_bytes_and_keys_are_transformed() -> None:
    layout = ninfer_kv_layout(256)
    assert layout.bytes == 516
    assert (layout.key_transform, layout.value_transform) == ("hadamard", "none")
