"""Gated DeltaNet between its projections against its formula in float64: every route, at its boundaries."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

import pytest
import torch

from ninfer_core.ops.delta_mixer import DeltaMixer, MixerColumns, MixerState, MixerWeights, ReferenceMixer
from ninfer_core.testing.tolerances import FP32_DELTA_RULE

WIDTH, KEPT, LAYERS, SLOTS = 4, 3, 2, 4
LAYER, ROWS, NOBODY = 1, [2, 0], [1, 3]


@dataclass(frozen=True)
class Shape:
    """Heads and dimensions of a layer, and W."""

    key_heads: int = 1
    value_heads: int = 2
    key_dim: int = 16
    value_dim: int = 8
    columns: int = 3

    @property
    def channels(self) -> int:
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim


SHAPES = [Shape(), Shape(key_heads=2, value_heads=2, key_dim=8, columns=1), Shape(value_heads=3, columns=2)]


@dataclass
class Sequence:
    """What one row's sequence has seen, in float64: the oracle keeps every column."""

    past: torch.Tensor  # [columns, channels] before the convolution
    memory: torch.Tensor  # [value_heads, key_dim, value_dim]


class Scene:
    """A layer of random weights, poisoned pools, and the oracle of two sequences in them."""

    def __init__(self, shape: Shape, device: torch.device, activation: str, lengths: list[int]) -> None:
        self.shape, self.device = shape, device
        self.weights = MixerWeights(
            conv=torch.randn(shape.channels, WIDTH).to(device),
            a_log=(torch.randn(shape.value_heads) * 0.5).to(device),
            dt_bias=torch.randn(shape.value_heads).to(device),
            gate_norm=(1 + 0.3 * torch.randn(shape.value_dim)).to(device),
            epsilon=1e-6,
            activation="silu" if activation == "silu" else "sigmoid",
            key_heads=shape.key_heads,
            key_dim=shape.key_dim,
        )
        ring = 2 * shape.columns
        shapes = (
            (shape.value_heads, shape.key_dim, shape.value_dim),
            (KEPT + ring, shape.channels),
            (ring, shape.key_heads, shape.key_dim),
            (ring, shape.value_heads, shape.value_dim),
            (ring, shape.value_heads),
        )
        self.state = MixerState(*(torch.full((LAYERS, SLOTS, *each), torch.nan, device=device) for each in shapes))
        self.slots = torch.tensor(ROWS, device=device)
        self.lengths = list(lengths)
        self.sequences: list[Sequence] = []
        for slot, length in zip(ROWS, lengths, strict=True):
            past = torch.randn(length, shape.channels)
            memory = torch.randn(shapes[0]) * (length > 0)
            self.state.memory[LAYER, slot] = memory.to(device)
            for position in range(max(0, length - KEPT), length):
                self.state.column[LAYER, slot, position % (KEPT + ring)] = past[position].to(device)
            self.sequences.append(Sequence(past.double(), memory.double()))

    def columns(self, count: int) -> MixerColumns:
        """Random columns as views of one projection."""
        shape = self.shape
        split = [shape.channels, shape.value_heads * shape.value_dim, shape.value_heads, shape.value_heads]
        projected = torch.randn(len(ROWS), count, sum(split)).to(self.device)
        return MixerColumns(*torch.split(projected, split, dim=-1))

    def at(self, row: int, offset: int = 0) -> torch.Tensor:
        """Where the ring of columns has those at the last `KEPT` positions, oldest first."""
        positions = range(self.lengths[row] + offset - KEPT, self.lengths[row] + offset)
        ring = self.state.column[LAYER, ROWS[row]]
        zeros = torch.zeros(self.shape.channels, device=self.device)
        return torch.stack([ring[position % ring.shape[0]] if position >= 0 else zeros for position in positions])

    def decode(self, mixer: DeltaMixer, columns: MixerColumns, accepted: list[int]) -> torch.Tensor:
        """The row's lengths move on by `accepted`."""
        self.lengths = [length + taken for length, taken in zip(self.lengths, accepted, strict=True)]
        return mixer.decode(columns, self.weights, self.state, LAYER, self.slots, *self._numbers(accepted))

    def fold(self, mixer: DeltaMixer, accepted: list[int]) -> None:
        self.lengths = [length + taken for length, taken in zip(self.lengths, accepted, strict=True)]
        mixer.fold(self.state, self.slots, *self._numbers(accepted))

    def prefill(self, mixer: DeltaMixer, columns: MixerColumns) -> torch.Tensor:
        out = mixer.prefill(columns, self.weights, self.state, LAYER, self.slots, self._numbers([0, 0])[0])
        self.lengths = [length + columns.qkv.shape[1] for length in self.lengths]
        return out

    def _numbers(self, accepted: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.tensor(self.lengths, device=self.device), torch.tensor(accepted, device=self.device)

    def oracle(self, row: int, columns: MixerColumns, committed: int) -> torch.Tensor:
        """-> [columns, value_heads · value_dim] in float64; the first `committed` columns become the sequence's."""
        sequence, shape, weights = self.sequences[row], self.shape, self.weights
        out = []
        memory = sequence.memory.clone()
        line = torch.cat((torch.zeros(KEPT, shape.channels).double(), sequence.past, columns.qkv[row].cpu().double()))
        start = sequence.past.shape[0]
        for t in range(columns.qkv.shape[1]):
            total = (line[start + t : start + t + WIDTH] * weights.conv.cpu().double().T).sum(0)
            mixed = total * torch.sigmoid(total)
            key_width = shape.key_heads * shape.key_dim
            query, key, value = torch.split(mixed, [key_width, key_width, shape.value_heads * shape.value_dim])
            out.append(
                torch.cat(
                    [self._head(row, columns, t, h, query, key, value, memory[h]) for h in range(shape.value_heads)]
                )
            )
            if t < committed:
                sequence.memory = memory.clone()
        sequence.past = torch.cat((sequence.past, columns.qkv[row, :committed].cpu().double()))
        return torch.stack(out)

    def _head(
        self,
        row: int,
        columns: MixerColumns,
        t: int,
        head: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        memory: torch.Tensor,
    ) -> torch.Tensor:
        """One column of one value head; `memory` [key_dim, value_dim] is changed."""
        shape, weights = self.shape, self.weights
        group = head // (shape.value_heads // shape.key_heads)
        q = query[group * shape.key_dim :][: shape.key_dim]
        k = key[group * shape.key_dim :][: shape.key_dim]
        v = value[head * shape.value_dim :][: shape.value_dim]
        q = q / math.sqrt(float(q @ q) + 1e-6) / math.sqrt(shape.key_dim)
        k = k / math.sqrt(float(k @ k) + 1e-6)
        rate = float(columns.a[row, t, head]) + float(weights.dt_bias[head])
        memory *= math.exp(-math.exp(float(weights.a_log[head])) * math.log1p(math.exp(rate)))
        memory += torch.outer(k, (v - memory.T @ k) / (1 + math.exp(-float(columns.b[row, t, head]))))
        read = memory.T @ q
        gate = columns.gate[row, t].cpu().double()[head * shape.value_dim :][: shape.value_dim]
        opening = torch.sigmoid(gate) * (gate if weights.activation == "silu" else 1)
        norm = torch.sqrt(read.square().mean() + weights.epsilon)
        return read / norm * weights.gate_norm.cpu().double() * opening


@pytest.fixture(scope="module", params=["reference", "kernels"])
def mixer(request: pytest.FixtureRequest, kernel_device: torch.device) -> DeltaMixer:
    if request.param == "reference":
        return ReferenceMixer()
    from ninfer_core.ops.delta_mixer.select import launch
    from ninfer_core.ops.delta_mixer.triton import TritonMixer

    return TritonMixer(launch(os.environ.get("TRITON_INTERPRET") == "1"))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("activation", ["silu", "sigmoid"])
def test_rounds_are_the_formula(mixer: DeltaMixer, kernel_device: torch.device, shape: Shape, activation: str) -> None:
    scene = Scene(shape, kernel_device, activation, [0, 5])
    accepted = [0, 0]
    width = shape.columns
    for turn in range(4):
        columns = scene.columns(width)
        before = scene.state.memory.clone()
        out = scene.decode(mixer, columns, accepted)
        following = [(turn + row) % (width + 1) for row in range(2)]
        for row, slot in enumerate(ROWS):
            FP32_DELTA_RULE.check(scene.state.memory[LAYER, slot], scene.sequences[row].memory)
            if accepted[row] == 0:
                assert torch.equal(scene.state.memory[LAYER, slot], before[LAYER, slot])
            FP32_DELTA_RULE.check(out[row], scene.oracle(row, columns, following[row]))
            assert torch.equal(scene.at(row, width), torch.cat((scene.at(row), columns.qkv[row]))[-KEPT:])
        accepted = following
    assert scene.state.memory[LAYER, NOBODY].isnan().all() and scene.state.memory[1 - LAYER].isnan().all()
    for ring in (scene.state.column, scene.state.key, scene.state.update, scene.state.decay):
        assert ring[:, NOBODY].isnan().all() and ring[1 - LAYER].isnan().all()


@pytest.mark.parametrize("accepted", [[0, 3], [1, 2], [3, 0]])
def test_a_fold_is_what_the_next_round_folds(
    mixer: DeltaMixer, kernel_device: torch.device, accepted: list[int]
) -> None:
    scene = Scene(Shape(), kernel_device, "silu", [4, 0])
    scene.state.memory[1 - LAYER] = 0.0
    scene.decode(mixer, scene.columns(3), [0, 0])
    for ring in (scene.state.key, scene.state.update, scene.state.decay):
        ring[1 - LAYER] = 0.0
    before = scene.state.memory.clone()
    scene.fold(mixer, accepted)
    folded = scene.state.memory.clone()
    scene.state.memory.copy_(before)
    scene.lengths = [length - taken for length, taken in zip(scene.lengths, accepted, strict=True)]
    scene.decode(mixer, scene.columns(3), accepted)
    assert torch.equal(scene.state.memory[LAYER, ROWS], folded[LAYER, ROWS])
    assert not any(torch.equal(folded[LAYER, s], before[LAYER, s]) for s, n in zip(ROWS, accepted, strict=True) if n)


def test_a_round_of_several_columns_is_rounds_of_one(mixer: DeltaMixer, kernel_device: torch.device) -> None:
    together, apart = (Scene(Shape(), kernel_device, "silu", [1, 9]) for _ in range(2))
    apart.weights = together.weights
    for mine, theirs in zip(
        (apart.state.memory, apart.state.column), (together.state.memory, together.state.column), strict=True
    ):
        mine.copy_(theirs)
    columns = together.columns(3)
    whole = together.decode(mixer, columns, [0, 0])
    for t in range(3):
        one = MixerColumns(*(x[:, t : t + 1] for x in (columns.qkv, columns.gate, columns.b, columns.a)))
        assert torch.equal(apart.decode(mixer, one, [int(t > 0)] * 2)[:, 0], whole[:, t])


@pytest.mark.parametrize("split", [[1], [2, 1], [3, 64, 1], [70], [64, 6]], ids=str)
def test_prefill_is_the_formula(mixer: DeltaMixer, kernel_device: torch.device, split: list[int]) -> None:
    scene = Scene(SHAPES[0], kernel_device, "silu", [0, 2])
    for count in split:
        columns = scene.columns(count)
        kept = [scene.at(row) for row in range(2)]
        out = scene.prefill(mixer, columns)
        for row, slot in enumerate(ROWS):
            FP32_DELTA_RULE.check(out[row], scene.oracle(row, columns, count))
            FP32_DELTA_RULE.check(scene.state.memory[LAYER, slot], scene.sequences[row].memory)
            assert torch.equal(scene.at(row), torch.cat((kept[row], columns.qkv[row]))[-KEPT:])
    assert scene.state.memory[LAYER, NOBODY].isnan().all() and scene.state.column[:, NOBODY].isnan().all()
    columns = scene.columns(3)
    out = scene.decode(mixer, columns, [0, 0])
    for row in range(2):
        FP32_DELTA_RULE.check(out[row], scene.oracle(row, columns, 0))
