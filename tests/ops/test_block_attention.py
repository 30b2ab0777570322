"""Attention of a block over its ring against softmax in float64 over the columns that were kept; every route."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import torch

from ninfer_core.api.model import HeadNorms, Rotation
from ninfer_core.ops.block_attention import BlockAttention, BlockShape, ReferenceBlockAttention, Ring, select
from ninfer_core.testing.attention import rotated_exactly
from ninfer_core.testing.tolerances import BF16_OPERATION, FP32_OPERATION

SLOTS, LAYERS, LAYER, HEAD_DIM, EPSILON = 4, 2, 1, 16, 1e-6


@pytest.fixture(params=["reference", "kernel"])
def route(request: pytest.FixtureRequest, kernel_device: torch.device) -> tuple[BlockAttention, torch.device]:
    if request.param == "reference":
        return ReferenceBlockAttention(), torch.device("cpu")
    from ninfer_core.ops.block_attention.triton import Tiles, TritonBlockAttention

    return TritonBlockAttention(Tiles(tokens=16), split_tokens=32), kernel_device


def rotation(positions: torch.Tensor) -> Rotation:
    angle = positions.unsqueeze(-1) * 0.7 ** torch.arange(HEAD_DIM // 2)
    return Rotation(angle.cos(), angle.sin())


@dataclass
class Scene:
    """Rows of one shape, a ring of poison, and the keys and values of each row as float64 knows them."""

    shape: BlockShape
    ring_tokens: int
    device: torch.device
    dtype: torch.dtype
    slots: tuple[int, ...] = (2, 0)
    past: list[list[torch.Tensor]] = field(default_factory=list)  # [row]: of each token [2, kv_heads, head_dim]

    def __post_init__(self) -> None:
        shape = (LAYERS, SLOTS, self.shape.kv_heads, self.ring_tokens, HEAD_DIM)
        self.ring = Ring(*(torch.full(shape, float("nan"), dtype=self.dtype, device=self.device) for _ in range(2)))
        self.norms = HeadNorms(torch.randn(HEAD_DIM) * 0.2, torch.randn(HEAD_DIM) * 0.2, EPSILON)
        self.past = [[] for _ in self.slots]

    def there(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        return [each.to(self.device) for each in tensors]

    def keep(self, attention: BlockAttention, columns: int, counts: list[int]) -> None:
        """Store the next columns of every row, of which `counts` are committed, the others poison."""
        stored = torch.randn(len(self.slots), columns, LAYERS, 2, self.shape.kv_heads, HEAD_DIM).to(self.dtype)
        first = torch.tensor([len(past) for past in self.past])
        angles = rotation(first.unsqueeze(1) + torch.arange(columns))
        for row, count in enumerate(counts):
            keys = rotated_exactly(
                stored[row : row + 1, :, LAYER, 0].double(), self.norms.key, EPSILON, _of(angles, row)
            )
            both = torch.stack((keys[0], stored[row, :, LAYER, 1].double()), dim=1)
            self.past[row] += list(both[:count])
            stored[row, count:] = float("nan")
        key_norms = torch.stack((self.norms.query, self.norms.key))
        inputs = self.there(stored, key_norms, angles.cos, angles.sin, torch.tensor(self.slots), first)
        stored, key_norms, cos, sin, slots, first = inputs
        (taken,) = self.there(torch.tensor(counts))
        attention.store(self.ring, stored, key_norms, EPSILON, Rotation(cos, sin), slots, first, taken)

    def attend(self, attention: BlockAttention, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
        """-> what a block gets, and what it should get."""
        shape = self.shape
        width = (shape.query_heads + 2 * shape.kv_heads) * HEAD_DIM
        projected = torch.randn(len(self.slots), columns, width).to(self.dtype)
        lengths = torch.tensor([len(past) for past in self.past])
        angles = rotation(lengths.unsqueeze(1) + torch.arange(columns))
        inputs = self.there(projected, self.norms.query, self.norms.key, angles.cos, angles.sin, lengths)
        given, query, key, cos, sin, length = inputs
        (slots,) = self.there(torch.tensor(self.slots))
        norms = HeadNorms(query, key, EPSILON)
        y = attention.attend(shape, self.ring, LAYER, given, norms, Rotation(cos, sin), slots, length, 0.3)
        expected = [self.expected(row, projected[row], _of(angles, row)) for row in range(len(self.slots))]
        return y.cpu(), torch.stack(expected)

    def expected(self, row: int, projected: torch.Tensor, angles: Rotation) -> torch.Tensor:
        shape, length = self.shape, len(self.past[row])
        columns = projected.shape[0]
        heads = projected.double().view(1, columns, -1, HEAD_DIM)
        query, key, value = torch.split(heads, [shape.query_heads, shape.kv_heads, shape.kv_heads], dim=2)
        query = rotated_exactly(query, self.norms.query, EPSILON, angles)[0]
        key, value = rotated_exactly(key, self.norms.key, EPSILON, angles)[0], value[0]
        out = torch.empty(columns, shape.query_heads, HEAD_DIM, dtype=torch.float64)
        for column in range(columns):
            oldest = max(0, length - self.ring_tokens)
            if shape.window is not None:
                oldest = max(oldest, length + column - shape.window + 1)
            seen = [self.past[row][position] for position in range(oldest, length)]
            last = column + 1 if shape.causal else columns
            seen += [torch.stack((key[other], value[other])) for other in range(last)]
            keys, values = torch.stack(seen).unbind(1)
            for head in range(shape.query_heads):
                weights = torch.softmax(keys[:, head // shape.group] @ query[column, head] * 0.3, dim=0)
                out[column, head] = weights @ values[:, head // shape.group]
        return out.flatten(1)


def _of(angles: Rotation, row: int) -> Rotation:
    return Rotation(angles.cos[row : row + 1], angles.sin[row : row + 1])


@pytest.mark.parametrize(
    ("window", "ring", "causal"), [(40, 39, False), (40, 40, True), (None, 128, False), (20, 64, False)]
)
def test_blocks_over_a_ring_that_fills(
    route: tuple[BlockAttention, torch.device], window: int | None, ring: int, causal: bool
) -> None:
    attention, device = route
    scene = Scene(BlockShape(4, 2, HEAD_DIM, window, causal), ring, device, torch.float32)
    for columns, counts in [(5, [2, 0]), (37, [37, 20]), (64, [3, 64])]:
        scene.keep(attention, columns, counts)
        FP32_OPERATION.check(*scene.attend(attention, 3))


def test_a_chunk_longer_than_the_ring(route: tuple[BlockAttention, torch.device]) -> None:
    attention, device = route
    scene = Scene(BlockShape(4, 1, HEAD_DIM, 20, False), 19, device, torch.float32)
    scene.keep(attention, 70, [70, 30])
    FP32_OPERATION.check(*scene.attend(attention, 3))


@pytest.mark.parametrize("columns", [1, 16])
def test_other_widths_in_16_bits(route: tuple[BlockAttention, torch.device], columns: int) -> None:
    attention, device = route
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float16  # the interpreter multiplies no bfloat16
    scene = Scene(BlockShape(4, 2, HEAD_DIM, 64, False), 63, device, dtype)
    scene.keep(attention, 70, [70, 30])
    BF16_OPERATION.check(*scene.attend(attention, columns))


def test_nothing_else_is_written(route: tuple[BlockAttention, torch.device]) -> None:
    attention, device = route
    scene = Scene(BlockShape(4, 2, HEAD_DIM, 40, False), 39, device, torch.float32)
    scene.keep(attention, 8, [5, 0])
    keys = scene.ring.keys.cpu()
    written = torch.zeros(LAYERS, SLOTS, 39, dtype=torch.bool)
    written[:, 2, :5] = True
    assert torch.equal(~keys.isnan().any(dim=(2, 4)), written)


def test_who_asks_gets_the_reference() -> None:
    assert isinstance(select(torch.device("cpu"), "auto"), ReferenceBlockAttention)
    assert isinstance(select(torch.device("cuda"), "reference"), ReferenceBlockAttention)


def test_columns_before_the_beginning_are_not_kept(route: tuple[BlockAttention, torch.device]) -> None:
    """As a round shows them of a row that has none. `first` is a view with strides, as positions have them."""
    attention, device = route
    ring = Ring(*(torch.full((1, SLOTS, 2, 8, HEAD_DIM), float("nan"), device=device) for _ in range(2)))
    positions = torch.tensor([[-2, -1, 0, 1], [5, 6, 7, 8]], device=device)
    angles = rotation(positions.cpu())
    attention.store(
        ring,
        torch.randn(2, 4, 1, 2, 2, HEAD_DIM).to(device),
        torch.zeros(1, HEAD_DIM).to(device),
        EPSILON,
        Rotation(angles.cos.to(device), angles.sin.to(device)),
        torch.tensor([0, 3], device=device),
        positions[:, 0],
        torch.tensor([3, 4], device=device),
    )
    written = torch.zeros(SLOTS, 8, dtype=torch.bool)
    written[0, 0] = True
    written[3, [5, 6, 7, 0]] = True
    for pool in (ring.keys, ring.values):
        assert torch.equal(~pool[0].isnan().any(dim=(1, 3)).cpu(), written)
