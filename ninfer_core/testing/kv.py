"""`KVConformance`: what a KV codec owes. Runs on the CPU in seconds, with no model.

Subclass it in a test module and name the plugin and its tolerance:

    class TestQ8Row(KVConformance):
        plugin = "q8row"
        tolerance = RoundTripTolerance(name="int8, one scale per row", of_row_maximum=1 / 252)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

import pytest
import torch

from ninfer_core.api.artifact import DTYPE_BYTES
from ninfer_core.api.errors import PluginIncompatible
from ninfer_core.api.kv import KVCodec, KVLayout, KVPart, KVPlane
from ninfer_core.plugins.loading import LoadedPlugin
from ninfer_core.plugins.registry import PluginRegistry
from ninfer_core.testing.manifest import loaded_after

HEAD_DIMS = (64, 128, 256)
PARTS: tuple[KVPart, ...] = get_args(KVPart)
PAGE_TOKENS = 64
KV_HEADS = 2
MAGNITUDES = (1e-2, 1.0, 30.0)
"""Sizes of rows: keys after a norm are near 1, values vary by a few orders."""


@dataclass(frozen=True, slots=True)
class RoundTripTolerance:
    """How far a value may come back from where it went in, as a fraction of the largest magnitude in its row
    (one token of one KV head, measured in float32)."""

    name: str
    of_row_maximum: float


class Planes:
    """The planes of one part of a small pool, as the core allocates them: [pages, kv_heads, page_tokens, elements]."""

    def __init__(self, planes: Sequence[KVPlane], pages: int) -> None:
        shape = (pages, KV_HEADS, PAGE_TOKENS)
        self.tensors = tuple(
            torch.zeros(*shape, plane.elements, dtype=torch_dtype(plane), device="cpu") for plane in planes
        )

    def store(self, page: int, first: int, encoded: tuple[torch.Tensor, ...]) -> None:
        """`encoded` planes [kv_heads, tokens, elements] go to `page` from token `first` on."""
        for tensor, codes in zip(self.tensors, encoded, strict=True):
            tensor[page, :, first : first + codes.shape[1]] = codes

    def page(self, page: int, tokens: int = PAGE_TOKENS) -> tuple[torch.Tensor, ...]:
        return tuple(tensor[page, :, :tokens].clone() for tensor in self.tensors)


def torch_dtype(plane: KVPlane) -> torch.dtype:
    dtype = getattr(torch, plane.dtype)
    assert isinstance(dtype, torch.dtype)
    return dtype


def rows(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Random rows of every magnitude in MAGNITUDES, each with one value four times as large as it would be."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(*shape, generator=generator)
    values[..., 7] *= 4
    count = values[..., 0].numel()
    scales = torch.tensor(MAGNITUDES).repeat(-(-count // len(MAGNITUDES)))[:count]
    return (values * scales.reshape(*shape[:-1], 1)).to(dtype)


def same_bytes(left: tuple[torch.Tensor, ...], right: tuple[torch.Tensor, ...]) -> bool:
    return all(
        torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))
        for one, other in zip(left, right, strict=True)
    )


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
class KVConformance:
    """`plugin` is `name` or `name@package`; its package must be installed. A head dimension that the format refuses
    with PluginIncompatible is skipped, but not all of them may be."""

    plugin: str
    tolerance: RoundTripTolerance

    @pytest.fixture
    def loaded(self) -> LoadedPlugin:
        registry = PluginRegistry.discover()
        return registry.load(registry.select("kv", self.plugin))

    @pytest.fixture
    def layout(self, loaded: LoadedPlugin, head_dim: int) -> KVLayout:
        try:
            layout = loaded.hook.ninfer_kv_layout(head_dim=head_dim)
        except PluginIncompatible as error:
            pytest.skip(error.message)
        assert isinstance(layout, KVLayout)
        return layout

    @pytest.fixture
    def codec(self, loaded: LoadedPlugin, layout: KVLayout) -> KVCodec:
        codec: KVCodec = loaded.hook.ninfer_kv_codec(layout=layout)
        return codec

    def test_some_head_dimension_can_be_stored(self, loaded: LoadedPlugin, head_dim: int) -> None:
        def refused(head_dim: int) -> bool:
            try:
                return loaded.hook.ninfer_kv_layout(head_dim=head_dim) is None
            except PluginIncompatible:
                return True

        assert not all(refused(head_dim) for head_dim in HEAD_DIMS)

    def test_the_layout_is_keys_then_values_and_always_the_same(
        self, loaded: LoadedPlugin, layout: KVLayout, head_dim: int
    ) -> None:
        assert loaded.hook.ninfer_kv_layout(head_dim=head_dim) == layout
        assert layout.planes == layout.part("key") + layout.part("value")
        for part in PARTS:
            names = [plane.name for plane in layout.part(part)]
            assert names and len(set(names)) == len(names)
        for plane in layout.planes:
            assert plane.dtype in DTYPE_BYTES and plane.elements > 0

    def test_the_layout_is_computed_without_torch(self, loaded: LoadedPlugin, layout: KVLayout, head_dim: int) -> None:
        offer = loaded.offer
        modules = loaded_after(
            "from ninfer_core.plugins import PluginRegistry\n"
            f"registry = PluginRegistry.discover()\noffer = registry.select('kv', {offer.reference!r})\n"
            f"registry.load(offer).hook.ninfer_kv_layout(head_dim={head_dim})"
        )
        assert "torch" not in modules

    def test_planes_have_the_shapes_and_dtypes_of_the_layout(
        self, codec: KVCodec, layout: KVLayout, head_dim: int
    ) -> None:
        assert codec.layout == layout
        for part in PARTS:
            for leading in ((), (1,), (2, 3), (4, 0)):
                encoded = codec.encode(part, torch.zeros(*leading, head_dim))
                found = [(tuple(plane.shape), plane.dtype) for plane in encoded]
                assert found == [((*leading, plane.elements), torch_dtype(plane)) for plane in layout.part(part)]

    def test_computed_bytes_equal_allocated_bytes(self, layout: KVLayout, head_dim: int) -> None:
        pages = 3
        allocated = sum(tensor.nbytes for part in PARTS for tensor in Planes(layout.part(part), pages).tensors)
        assert allocated == pages * KV_HEADS * PAGE_TOKENS * layout.bytes

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    @pytest.mark.parametrize("part", PARTS)
    def test_a_round_trip_stays_within_the_tolerance(
        self, codec: KVCodec, part: KVPart, dtype: torch.dtype, head_dim: int
    ) -> None:
        values = rows(5, KV_HEADS, head_dim, dtype=dtype)
        decoded = codec.decode(part, codec.encode(part, values), torch.float32)
        assert decoded.shape == values.shape and torch.isfinite(decoded).all()
        error = (decoded - values.float()).abs().amax(-1) / values.float().abs().amax(-1)
        assert error.max().item() <= self.tolerance.of_row_maximum, self.tolerance.name

    def test_zeros_come_back_as_zeros(self, codec: KVCodec, head_dim: int) -> None:
        for part in PARTS:
            decoded = codec.decode(part, codec.encode(part, torch.zeros(3, head_dim)), torch.float32)
            assert torch.equal(decoded, torch.zeros(3, head_dim))

    def test_decoding_gives_the_dtype_that_was_asked_for(self, codec: KVCodec, head_dim: int) -> None:
        for part in PARTS:
            encoded = codec.encode(part, rows(2, head_dim))
            for dtype in (torch.float32, torch.bfloat16, torch.float16):
                assert codec.decode(part, encoded, dtype).dtype == dtype

    def test_a_row_does_not_depend_on_its_neighbours(self, codec: KVCodec, head_dim: int) -> None:
        values = rows(6, head_dim)
        for part in PARTS:
            together = codec.encode(part, values)
            for index in range(len(values)):
                alone = codec.encode(part, values[index])
                assert same_bytes(tuple(plane[index] for plane in together), alone)

    def test_memory_order_makes_no_difference_and_inputs_are_left_alone(self, codec: KVCodec, head_dim: int) -> None:
        turned = rows(3, 4, head_dim).permute(2, 1, 0).contiguous().permute(2, 1, 0)
        before = turned.clone()
        for part in PARTS:
            encoded = codec.encode(part, turned)
            assert same_bytes(encoded, codec.encode(part, turned.contiguous()))
            kept = tuple(plane.clone() for plane in encoded)
            codec.decode(part, encoded, torch.bfloat16)
            assert same_bytes(kept, encoded)
        assert torch.equal(turned, before)

    def test_pages_filled_in_pieces_and_copied_keep_their_bytes(
        self, codec: KVCodec, layout: KVLayout, head_dim: int
    ) -> None:
        tokens = 37
        values = rows(KV_HEADS, PAGE_TOKENS, head_dim)
        for part in PARTS:
            pool = Planes(layout.part(part), pages=3)
            pool.store(0, 0, codec.encode(part, values))
            for first, last in ((0, 1), (1, 20), (20, tokens)):
                pool.store(1, first, codec.encode(part, values[:, first:last]))
            assert same_bytes(pool.page(1, tokens), pool.page(0, tokens))
            pool.store(2, 0, pool.page(1))
            partial = codec.decode(part, pool.page(1, tokens), torch.float32)
            pool.store(1, tokens, codec.encode(part, values[:, tokens:]))
            assert same_bytes(pool.page(1), pool.page(0))
            assert torch.equal(codec.decode(part, pool.page(2, tokens), torch.float32), partial)
