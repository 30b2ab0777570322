from __future__ import annotations

import pytest
import torch

from ninfer_core.api import KVPart
from ninfer_core.plugins import PluginRegistry
from ninfer_core.testing.kv import PARTS, KVConformance, RoundTripTolerance, rows
from ninfer_core.testing.manifest import ManifestConformance


class TestManifest(ManifestConformance):
    kind = "kv"
    plugin = "bf16@ninfer-kvformats"


class TestCodec(KVConformance):
    plugin = "bf16@ninfer-kvformats"
    # Rounding to nearest in 8 bits of significand moves a value by at most 2^-8 of itself.
    tolerance = RoundTripTolerance(name="bfloat16, rounded to nearest", of_row_maximum=2**-8)


@pytest.mark.contract("OPT-22")
@pytest.mark.parametrize("part", PARTS)
def test_bfloat16_comes_back_bit_for_bit_at_four_bytes_a_pair(part: KVPart) -> None:
    registry = PluginRegistry.discover()
    hook = registry.load(registry.select("kv", "bf16@ninfer-kvformats")).hook
    layout = hook.ninfer_kv_layout(head_dim=256)
    codec = hook.ninfer_kv_codec(layout=layout)
    values = rows(9, 256, dtype=torch.bfloat16)
    assert torch.equal(codec.decode(part, codec.encode(part, values), torch.bfloat16), values)
    assert layout.bytes == 4 * 256
