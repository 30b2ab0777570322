"""The least that a unit takes, against numbers that were reckoned by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from ninfer_core.bench.floor import Experts, Floor
from ninfer_core.bench.subject import floor_of
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.prepare import prepare
from ninfer_core.plugins.registry import PluginRegistry

COPY_BYTES_PER_SECOND, MATMUL_FLOPS, FP8_FLOPS = 4.3e12, 790e12, 1111e12


Floors = Callable[..., Floor]


@pytest.fixture(scope="module")
def floor() -> Floors:
    """Of a dummy in a form of weights, planned once."""
    registry = PluginRegistry.discover()

    @cache
    def planned(name: str, weights: str | None = None) -> Floor:
        options = ServeOptions(
            artifact=f"dummy:{name}", weights=weights, assume_device_memory=141 * 2**30, max_concurrency=8
        )
        return floor_of(prepare(options, registry), registry)

    return planned


@pytest.mark.parametrize(
    ("name", "weights", "rows", "milliseconds"),
    [
        ("qwen3.8-27b", None, 1, 11.9),
        ("qwen3.8-27b", None, 8, 12.5),
        ("qwen3.8-27b", "fp8", 1, 6.0),
        ("qwen3.8-27b", "fp8", 8, 6.5),
        ("qwen3.8-27b", "nvfp4", 1, 3.5),
        ("qwen3.6-35b-a3b", None, 1, 1.4),
        ("qwen3.6-35b-a3b", None, 8, 4.2),
    ],
)
def test_the_floors_of_the_design(
    floor: Floors, name: str, weights: str | None, rows: int, milliseconds: float
) -> None:
    least = floor(name, weights).decode_bytes(rows, 128) / COPY_BYTES_PER_SECOND * 1e3
    assert least == pytest.approx(milliseconds, rel=0.08)  # the design counts no state for the last one


@pytest.mark.parametrize(
    ("name", "rate", "seconds"),
    [("qwen3.8-27b", MATMUL_FLOPS, 0.54), ("qwen3.8-27b", FP8_FLOPS, 0.38), ("qwen3.6-35b-a3b", MATMUL_FLOPS, 0.06)],
)
def test_the_floors_of_a_prefill(floor: Floors, name: str, rate: float, seconds: float) -> None:
    assert floor(name).prefill_operations(8192) / rate == pytest.approx(seconds, rel=0.08)


def test_a_context_adds_its_keys_and_values(floor: Floors) -> None:
    of_27b = floor("qwen3.8-27b")
    added = of_27b.decode_bytes(2, 65536) - of_27b.decode_bytes(2, 0)
    assert added == 2 * 65536 * 16 * 4 * 256 * 2 * 2  # layers, heads, dimensions, keys and values, two bytes


def test_experts_of_one_token_are_those_it_chooses() -> None:
    assert Experts(256, 8).share(1) == pytest.approx(8 / 256)
    assert 7 * 8 / 256 < Experts(256, 8).share(8) < 8 * 8 / 256
