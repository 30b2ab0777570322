from __future__ import annotations

import torch
from ninfer_kv_q8row import Q8RowCodec, ninfer_kv_layout

from ninfer_core.testing.kv import KVConformance, RoundTripTolerance
from ninfer_core.testing.manifest import ManifestConformance


class TestManifest(ManifestConformance):
    kind = "kv"
    plugin = "q8row"


class TestCodec(KVConformance):
    plugin = "q8row"
    # Half a step, and what rounding the scale to float16 (or to its subnormals, for rows near 1e-2) adds.
    tolerance = RoundTripTolerance(name="int8, one float16 scale per row", of_row_maximum=1 / 254 + 2**-11)


def test_codes_and_scale_are_those_of_the_formula() -> None:
    codec = Q8RowCodec(ninfer_kv_layout(head_dim=4))
    codes, scale = codec.encode("key", torch.tensor([[127.0, -127.0, 63.4, 0.0], [0.0, 0.0, 0.0, 0.0]]))
    assert codes.tolist() == [[127, -127, 63, 0], [0, 0, 0, 0]]
    assert scale.tolist() == [[1.0], [0.0]]


def test_a_row_too_small_for_any_scale_becomes_zeros_and_one_too_large_stays_finite() -> None:
    codec = Q8RowCodec(ninfer_kv_layout(head_dim=2))
    small = codec.decode("value", codec.encode("value", torch.tensor([1e-9, -1e-9])), torch.float32)
    assert small.tolist() == [0.0, 0.0]
    large = codec.decode("value", codec.encode("value", torch.tensor([1e30, -1e30])), torch.float32)
    assert large.tolist() == [127 * 65504.0, -127 * 65504.0]


def test_a_pair_costs_half_of_bf16_and_two_scales() -> None:
    assert ninfer_kv_layout(head_dim=256).bytes == 2 * (256 + 2)
