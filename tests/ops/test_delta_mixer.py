"""Gated DeltaNet between its projections against its formula in float64: every route, at its boundaries."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import pytest
import torch
from torch.nn.functional import softplus

from ninfer_core.ops.delta_mixer import DeltaMixer, MixerColumns, MixerState, MixerWeights, ReferenceMixer, select
from ninfer_core.ops.workspace import gated_delta
from ninfer_core.testing.tolerances import BF16_DELTA_RULE, FP32_DELTA_RULE

WIDTH, KEPT, LAYERS, SLOTS = 4, 3, 2, 4
LAYER, ROWS, NOBODY = 1, [2, 0], [1, 3]
"""The layer that is run and the slots of its two rows; the other layer and the other slots are nobody's."""


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


SMALL = Shape()
SHAPES = [
    SMALL,
    Shape(key_heads=2, value_heads=2, key_dim=8, columns=1),
    Shape(value_heads=3, columns=2),
    Shape(key_dim=32, value_dim=32, columns=2),
]


@dataclass
class Sequence:
    """What one row's sequence has seen, in float64: the oracle keeps every column."""

    past: torch.Tensor  # [columns, channels] before the convolution
    memory: torch.Tensor  # [value_heads, key_dim, value_dim]


class Scene:
    """A layer with random weights, poisoned pools, and what it should give. `lengths` is what the two rows have
    committed already."""

    def __init__(
        self,
        shape: Shape,
        device: torch.device,
        lengths: list[int],
        *,
        activation: str = "silu",
        dtype: torch.dtype = torch.float32,
        slow_decay: bool = False,
    ) -> None:
        self.shape, self.device, self.dtype = shape, device, dtype
        self.weights = MixerWeights(
            conv=(torch.randn(shape.channels, WIDTH) * 0.5).to(device),
            a_log=(torch.randn(shape.value_heads) * 0.5 - 5 * slow_decay).to(device),
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
        pools = [torch.full((LAYERS, SLOTS, *each), torch.nan, device=device) for each in shapes]
        pools[1] = pools[1].to(dtype)
        self.state = MixerState(*pools)
        self.slots = torch.tensor(ROWS, device=device)
        self.lengths = list(lengths)
        self.sequences = [self._begin(slot, length) for slot, length in zip(ROWS, lengths, strict=True)]

    def _begin(self, slot: int, length: int) -> Sequence:
        past = torch.randn(length, self.shape.channels).to(self.device, self.dtype)
        memory = 0.3 * torch.randn(self.state.memory.shape[2:]).to(self.device) * (length > 0)
        self.state.memory[LAYER, slot] = memory
        ring = self.state.column[LAYER, slot]
        for position in range(max(0, length - KEPT), length):
            ring[position % ring.shape[0]] = past[position]
        return Sequence(past.double(), memory.double())

    def columns(self, count: int) -> MixerColumns:
        """Random columns as views of one projection."""
        shape = self.shape
        split = [shape.channels, shape.value_heads * shape.value_dim, shape.value_heads, shape.value_heads]
        projected = torch.randn(len(ROWS), count, sum(split)).to(self.device, self.dtype)
        return MixerColumns(*torch.split(projected, split, dim=-1))

    def kept(self, row: int, offset: int = 0) -> torch.Tensor:
        """The last `KEPT` columns before the position `offset` behind the row's length, oldest first."""
        end = self.lengths[row] + offset
        ring = self.state.column[LAYER, ROWS[row]]
        zeros = torch.zeros_like(ring[0])
        return torch.stack([ring[p % ring.shape[0]] if p >= 0 else zeros for p in range(end - KEPT, end)])

    def decode(self, mixer: DeltaMixer, columns: MixerColumns, accepted: list[int]) -> torch.Tensor:
        """The rows' lengths move on by `accepted`."""
        self._accept(accepted)
        return mixer.decode(columns, self.weights, self.state, LAYER, self.slots, *self._numbers(accepted))

    def fold(self, mixer: DeltaMixer, accepted: list[int]) -> None:
        """The rows' lengths move on by `accepted`."""
        self._accept(accepted)
        mixer.fold(self.state, self.slots, *self._numbers(accepted))

    def prefill(self, mixer: DeltaMixer, columns: MixerColumns) -> torch.Tensor:
        """The rows' lengths move on by all columns."""
        lengths, _ = self._numbers([0, 0])
        out = mixer.prefill(columns, self.weights, self.state, LAYER, self.slots, lengths)
        self._accept([columns.qkv.shape[1]] * len(ROWS))
        return out

    def _accept(self, accepted: list[int]) -> None:
        self.lengths = [length + taken for length, taken in zip(self.lengths, accepted, strict=True)]

    def _numbers(self, accepted: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.tensor(self.lengths, device=self.device), torch.tensor(accepted, device=self.device)

    def oracle(self, row: int, columns: MixerColumns, committed: int) -> torch.Tensor:
        """-> [columns, value_heads · value_dim] in float64; the first `committed` columns become the sequence's."""
        sequence, shape = self.sequences[row], self.shape
        taps, new = self.weights.conv.double(), columns.qkv[row].double()
        line = torch.cat((new.new_zeros(KEPT, shape.channels), sequence.past, new))[-(KEPT + new.shape[0]) :]
        total = sum(line[tap : tap + new.shape[0]] * taps[:, tap] for tap in range(WIDTH))
        assert isinstance(total, torch.Tensor)
        # In 16 bits the values that the rule starts from are rounded ones: that is the operation's own definition.
        mixed = (total * torch.sigmoid(total)).to(self.dtype).double()
        out, memory = [], sequence.memory.clone()
        for t in range(new.shape[0]):
            memory, read = self._step(mixed[t], columns.a[row, t].double(), columns.b[row, t].double(), memory)
            out.append(self._gated(read, columns.gate[row, t].double()))
            if t + 1 == committed:
                sequence.memory = memory
        sequence.past = torch.cat((sequence.past, new[:committed]))
        return torch.stack(out)

    def _step(
        self, mixed: torch.Tensor, a: torch.Tensor, b: torch.Tensor, memory: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """One column of all heads: -> memory after it, and the read-out [value_heads, value_dim]."""
        shape, weights = self.shape, self.weights
        width = shape.key_heads * shape.key_dim
        share = shape.value_heads // shape.key_heads
        q, k = (
            each.view(-1, shape.key_dim).repeat_interleave(share, 0)
            for each in (mixed[:width], mixed[width : 2 * width])
        )
        v = mixed[2 * width :].view(-1, shape.value_dim)
        q = q / torch.sqrt(q.square().sum(-1, keepdim=True) + 1e-6) / math.sqrt(shape.key_dim)
        k = k / torch.sqrt(k.square().sum(-1, keepdim=True) + 1e-6)
        decay = torch.exp(-torch.exp(weights.a_log.double()) * softplus(a + weights.dt_bias.double(), threshold=200))
        memory = memory * decay[:, None, None]
        update = torch.sigmoid(b)[:, None] * (v - torch.einsum("hkv,hk->hv", memory, k))
        memory = memory + k[:, :, None] * update[:, None, :]
        return memory, torch.einsum("hkv,hk->hv", memory, q)

    def _gated(self, read: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        weights = self.weights
        opening = torch.sigmoid(gate) * (gate if weights.activation == "silu" else 1)
        norm = torch.sqrt(read.square().mean(-1, keepdim=True) + weights.epsilon)
        return (read / norm * weights.gate_norm.double()).flatten() * opening


@pytest.fixture(scope="module", params=["reference", "kernels"])
def mixer(request: pytest.FixtureRequest, kernel_device: torch.device) -> DeltaMixer:
    if request.param == "reference":
        return ReferenceMixer()
    from ninfer_core.ops.delta_mixer.launch import launch
    from ninfer_core.ops.delta_mixer.triton import TritonMixer

    return TritonMixer(launch(interpreted=kernel_device.type == "cpu"))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("activation", ["silu", "sigmoid"])
def test_rounds_are_the_formula(mixer: DeltaMixer, kernel_device: torch.device, shape: Shape, activation: str) -> None:
    scene = Scene(shape, kernel_device, [0, 5], activation=activation)
    check_rounds(scene, mixer, turns=4)
    untouched = scene.state.memory, scene.state.column, scene.state.key, scene.state.update, scene.state.decay
    for pool in untouched:
        assert pool[:, NOBODY].isnan().all() and pool[1 - LAYER].isnan().all()


def check_rounds(scene: Scene, mixer: DeltaMixer, turns: int) -> None:
    """Every number of accepted columns in turn, another for each row; the rings go round."""
    width = scene.shape.columns
    accepted = [0, 0]
    for turn in range(turns):
        columns = scene.columns(width)
        before = scene.state.memory.clone()
        out = scene.decode(mixer, columns, accepted)
        following = [(turn + row) % (width + 1) for row in range(2)]
        for row, slot in enumerate(ROWS):
            FP32_DELTA_RULE.check(scene.state.memory[LAYER, slot], scene.sequences[row].memory)
            if accepted[row] == 0:
                assert torch.equal(scene.state.memory[LAYER, slot], before[LAYER, slot])
            FP32_DELTA_RULE.check(out[row], scene.oracle(row, columns, following[row]))
            assert torch.equal(scene.kept(row, width), torch.cat((scene.kept(row), columns.qkv[row]))[-KEPT:])
        accepted = following


@pytest.mark.parametrize("accepted", [[0, 3], [1, 2], [3, 0]])
def test_a_fold_is_what_the_next_round_folds(
    mixer: DeltaMixer, kernel_device: torch.device, accepted: list[int]
) -> None:
    scene = Scene(SMALL, kernel_device, [4, 0])
    scene.decode(mixer, scene.columns(3), [0, 0])
    for pool in (scene.state.memory, scene.state.key, scene.state.update, scene.state.decay):
        pool[1 - LAYER] = pool[LAYER]  # all layers are folded
    before = scene.state.memory.clone()
    scene.fold(mixer, accepted)
    folded = scene.state.memory.clone()
    scene.state.memory.copy_(before)
    scene.lengths = [length - taken for length, taken in zip(scene.lengths, accepted, strict=True)]
    scene.decode(mixer, scene.columns(3), accepted)
    for slot, taken in zip(ROWS, accepted, strict=True):
        assert torch.equal(scene.state.memory[LAYER, slot], folded[LAYER, slot])
        assert torch.equal(folded[1 - LAYER, slot], folded[LAYER, slot])
        assert torch.equal(folded[LAYER, slot], before[LAYER, slot]) == (taken == 0)
    assert folded[:, NOBODY].isnan().all()


def test_a_round_of_several_columns_is_rounds_of_one(mixer: DeltaMixer, kernel_device: torch.device) -> None:
    """To the bit where nothing is compiled: a compiler fuses the arithmetic of each kernel as it likes."""
    together, apart = (Scene(SMALL, kernel_device, [1, 9]) for _ in range(2))
    apart.weights = together.weights
    apart.state.memory.copy_(together.state.memory)
    apart.state.column.copy_(together.state.column)
    columns = together.columns(3)
    whole = together.decode(mixer, columns, [0, 0])
    for t in range(3):
        one = MixerColumns(*(x[:, t : t + 1] for x in (columns.qkv, columns.gate, columns.b, columns.a)))
        alone = apart.decode(mixer, one, [int(t > 0)] * 2)[:, 0]
        if kernel_device.type == "cpu":
            assert torch.equal(alone, whole[:, t])
        else:
            FP32_DELTA_RULE.check(alone, whole[:, t])


@pytest.mark.parametrize("split", [[1], [2, 1], [3, 64, 1], [70], [64, 6]], ids=str)
def test_prefill_is_the_formula(mixer: DeltaMixer, kernel_device: torch.device, split: list[int]) -> None:
    scene = Scene(SMALL, kernel_device, [0, 2])
    for count in split:
        columns = scene.columns(count)
        kept = [scene.kept(row) for row in range(2)]
        out = scene.prefill(mixer, columns)
        for row, slot in enumerate(ROWS):
            FP32_DELTA_RULE.check(out[row], scene.oracle(row, columns, count))
            FP32_DELTA_RULE.check(scene.state.memory[LAYER, slot], scene.sequences[row].memory)
            assert torch.equal(scene.kept(row), torch.cat((kept[row], columns.qkv[row]))[-KEPT:])
    assert scene.state.memory[LAYER, NOBODY].isnan().all() and scene.state.column[:, NOBODY].isnan().all()
    columns = scene.columns(3)
    out = scene.decode(mixer, columns, [0, 0])
    for row in range(2):
        FP32_DELTA_RULE.check(out[row], scene.oracle(row, columns, 0))


@pytest.mark.parametrize("decay", ["strong", "none"])
def test_prefill_of_extreme_columns(mixer: DeltaMixer, kernel_device: torch.device, decay: str) -> None:
    """Decay that forgets everything at every column, and none with keys all alike: the system is then as far from the
    identity as it can be."""
    scene = Scene(SMALL, kernel_device, [0, 7])
    scene.weights.a_log.fill_(4.0 if decay == "strong" else -30.0)
    columns = scene.columns(66)
    if decay == "none":
        columns.qkv[:] = columns.qkv[:, :1]
        columns.b.fill_(9.0)
    out = scene.prefill(mixer, columns)
    for row, slot in enumerate(ROWS):
        FP32_DELTA_RULE.check(out[row], scene.oracle(row, columns, 66))
        FP32_DELTA_RULE.check(scene.state.memory[LAYER, slot], scene.sequences[row].memory)


@pytest.mark.parametrize("tokens", [1, 64, 65, 1024])
def test_kernels_of_a_prefill_need_no_more_than_the_reference(kernel_device: torch.device, tokens: int) -> None:
    """The plan counts the reference's bytes for both."""
    from ninfer_core.ops.delta_mixer.solved import Solved

    like = torch.empty(1, tokens, 10_240, dtype=torch.bfloat16, device="meta")
    vectors = {"a_log": torch.empty(48), "dt_bias": torch.empty(48), "gate_norm": torch.empty(128)}
    weights = MixerWeights(
        conv=torch.empty(10_240, 4), epsilon=1e-6, activation="silu", key_heads=16, key_dim=128, **vectors
    )
    solved = Solved.empty(1, -(-tokens // 64), 1, weights, like)
    used = sum(getattr(solved, each.name).nbytes for each in fields(solved))
    counted = gated_delta.prefill_bytes(rows=1, columns=tokens, value_heads=48, key_dim=128, value_dim=128)
    assert used < counted


published = pytest.mark.parametrize(
    ("key_heads", "value_heads"), [(16, 48), (16, 32), (8, 8)], ids=["27b", "35b", "unshared"]
)
on_a_device = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.gpu
@on_a_device
@published
@pytest.mark.parametrize("columns", [1, 2, 5, 16])
def test_rounds_of_published_shapes(key_heads: int, value_heads: int, columns: int) -> None:
    device = torch.device("cuda")
    shape = Shape(key_heads, value_heads, 128, 128, columns)
    check_rounds(Scene(shape, device, [0, 2]), select(device, "auto"), turns=columns + 3)


@pytest.mark.gpu
@on_a_device
@pytest.mark.parametrize("columns", [1, 4])
@pytest.mark.parametrize(
    ("key_heads", "value_heads", "dim"),
    [(16, 48, 128), (16, 32, 128), (8, 8, 128), (4, 8, 64), (4, 8, 32), (2, 8, 16)],
    ids=["27b", "35b", "unshared", "64", "32", "16"],
)
def test_rounds_in_16_bits(key_heads: int, value_heads: int, dim: int, columns: int) -> None:
    device = torch.device("cuda")
    scene = Scene(Shape(key_heads, value_heads, dim, dim, columns), device, [3, 2], dtype=torch.bfloat16)
    mixer, accepted = select(device, "auto"), [0, 0]
    for turn in range(columns + 3):
        columns_of_turn = scene.columns(columns)
        out = scene.decode(mixer, columns_of_turn, accepted)
        accepted = [(turn + row) % (columns + 1) for row in range(2)]
        for row, slot in enumerate(ROWS):
            BF16_DELTA_RULE.check(scene.state.memory[LAYER, slot], scene.sequences[row].memory)
            BF16_DELTA_RULE.check(out[row], scene.oracle(row, columns_of_turn, accepted[row]))


@pytest.mark.gpu
@on_a_device
@published
def test_prefill_of_published_shapes(key_heads: int, value_heads: int) -> None:
    device = torch.device("cuda")
    mixer = select(device, "auto")
    scene = Scene(Shape(key_heads, value_heads, 128, 128, 1), device, [0, 5], dtype=torch.bfloat16, slow_decay=True)
    for count in (1, 2, 3, 64, 65, 700, 17):
        columns = scene.columns(count)
        out = scene.prefill(mixer, columns)
        for row, slot in enumerate(ROWS):
            BF16_DELTA_RULE.check(out[row], scene.oracle(row, columns, count))
            BF16_DELTA_RULE.check(scene.state.memory[LAYER, slot], scene.sequences[row].memory)
    columns = scene.columns(1)
    out = scene.decode(mixer, columns, [0, 0])
    for row in range(2):
        BF16_DELTA_RULE.check(out[row], scene.oracle(row, columns, 0))


@pytest.mark.gpu
@on_a_device
def test_a_row_is_the_same_alone_and_among_others() -> None:
    device = torch.device("cuda")
    mixer = select(device, "auto")
    scene = Scene(Shape(16, 48, 128, 128, 2), device, [3, 8], dtype=torch.bfloat16)
    columns, before = scene.columns(2), scene.state.memory.clone()
    both = scene.decode(mixer, columns, [0, 0])
    scene.state.memory.copy_(before)
    for row in range(2):
        one = MixerColumns(*(x[row : row + 1] for x in (columns.qkv, columns.gate, columns.b, columns.a)))
        numbers = torch.tensor([scene.lengths[row]], device=device), torch.tensor([0], device=device)
        alone = mixer.decode(one, scene.weights, scene.state, LAYER, scene.slots[row : row + 1], *numbers)
        assert torch.equal(alone[0], both[row])
