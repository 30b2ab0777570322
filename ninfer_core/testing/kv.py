"""`KVConformance`: what a KV codec owes. Runs on the CPU in seconds, with no model.

Subclass it in a test module and name the plugin and its tolerance:

    class TestQ8Row(KVConformance):
        plugin = "q8row"
        tolerance = RoundTripTolerance(name="int8, one scale per row", of_row_maximum=1 / 252)
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast, get_args

import pytest
import torch

from ninfer_core.api.artifact import DTYPE_BYTES
from ninfer_core.api.errors import PluginIncompatible
from ninfer_core.api.kv import KVCodec, KVDeviceCodec, KVLayout, KVPart, KVPlane
from ninfer_core.ops.paged_attention import AttentionShape
from ninfer_core.ops.paged_attention.select import triton_routes
from ninfer_core.plugins.loading import LoadedPlugin
from ninfer_core.plugins.registry import PluginRegistry
from ninfer_core.testing.attention import random_case
from ninfer_core.testing.manifest import loaded_after
from ninfer_core.testing.tolerances import BF16_OPERATION, FP32_OPERATION

HEAD_DIMS = (64, 128, 256)
PARTS: tuple[KVPart, ...] = get_args(KVPart)
PAGE_TOKENS = 64
KV_HEADS = 2
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when Triton and modules with kernels are imported
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


def kernel_device() -> torch.device:
    """A CUDA device, or the CPU under Triton's interpreter."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
class KVConformance:
    """`plugin` is `name` or `name@package`; its package must be installed. A head dimension that the format refuses
    with PluginIncompatible is skipped, but not all of them may be."""

    plugin: str
    tolerance: RoundTripTolerance

    @pytest.fixture
    def device_codec(self, codec: KVCodec, layout: KVLayout) -> KVDeviceCodec:
        if not layout.device_functions:
            pytest.skip(f"{self.plugin} has no device functions")
        pytest.importorskip("triton")
        return cast("KVDeviceCodec", codec)

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

    @pytest.mark.parametrize("part", PARTS)
    def test_device_functions_store_and_load_the_bytes_of_the_reference(
        self, device_codec: KVDeviceCodec, part: KVPart, head_dim: int
    ) -> None:
        """Some rows of a tile are stored and read, in a scattered order; the others are left, and read as zeros."""
        device = kernel_device()
        from ninfer_core.testing.kv_kernels import load_rows, store_rows

        tokens, layout = 16, device_codec.layout.part(part)
        functions = getattr(device_codec.device_functions(), part)
        # bfloat16 numbers, as float32: the interpreter does not round to bfloat16 as devices do.
        values = rows(tokens, head_dim, dtype=torch.bfloat16).float().to(device)
        places = torch.randperm(3 * tokens)[:tokens].to(device)
        chosen = torch.arange(tokens, device=device, dtype=torch.int32) % 3 != 1
        planes = tuple(
            torch.full((3 * tokens, plane.elements * DTYPE_BYTES[plane.dtype]), 0xFF, dtype=torch.uint8, device=device)
            for plane in layout
        )
        expected = tuple(plane.clone() for plane in planes)
        encoded = device_codec.encode(part, values[chosen])
        for plane, codes in zip(expected, encoded, strict=True):
            plane[places[chosen]] = codes.contiguous().view(torch.uint8)
        typed = tuple(data.view(torch_dtype(plane)) for data, plane in zip(planes, layout, strict=True))
        store_rows[(1,)](typed, places, chosen.int(), values, STORE=functions.store, TOKENS=tokens, HEAD_DIM=head_dim)
        assert same_bytes(planes, expected)
        out = torch.full((tokens, head_dim), torch.nan, device=device)
        how = {"LOAD": functions.load, "ROW_SCALE": functions.row_scale, "LANES": functions.lanes}
        load_rows[(1,)](typed, places, chosen.int(), out, **how, TOKENS=tokens, HEAD_DIM=head_dim)
        assert torch.equal(out[chosen], device_codec.decode(part, encoded, torch.float32))
        assert not out[~chosen].any()

    def test_the_attention_kernels_run_over_it(self, device_codec: KVDeviceCodec, head_dim: int) -> None:
        """Against softmax in float64 over what the pages hold, for decode rounds and chunks."""
        device = kernel_device()
        on_device = device.type == "cuda"
        shape = AttentionShape(
            query_heads=4,
            kv_heads=KV_HEADS,
            head_dim=head_dim,
            page_tokens=PAGE_TOKENS,
            decode_columns=2,
            max_context=256,
            activation_dtype=torch.bfloat16 if on_device else torch.float32,
        )
        routes = triton_routes(device_codec, shape, None if on_device else torch.float32)
        for route in (routes.decode, routes.prefill):
            case = random_case(device_codec, shape, [PAGE_TOKENS - 1], 2, device, pairs=8)
            actual = case.run(route)
            (BF16_OPERATION if on_device else FP32_OPERATION).check(actual, case.expected(range(2)))
