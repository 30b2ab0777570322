"""The operations of block drafters at published shapes on a CUDA device, against float64 and in graphs."""

from __future__ import annotations

import pytest
import torch

from ninfer_core.api.model import HeadNorms, Rotation
from ninfer_core.ops import block_attention, block_conv, draft_walk
from ninfer_core.ops.block_attention import BlockShape, Ring
from ninfer_core.ops.draft_walk import CHOICES, Codebooks, LogitTransform
from ninfer_core.testing.attention import rotated_exactly
from ninfer_core.testing.tolerances import BF16_OPERATION

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

CUDA, BF16 = torch.device("cuda"), torch.bfloat16
SLOTS, HEADS, KV_HEADS, HEAD_DIM, RING, WIDTH, EPSILON = 8, 32, 8, 128, 2047, 5120, 1e-6
SHAPES = {
    "sliding": BlockShape(HEADS, KV_HEADS, HEAD_DIM, RING + 1, causal=False),
    "causal": BlockShape(HEADS, KV_HEADS, HEAD_DIM, RING + 1, causal=True),
    "whole": BlockShape(HEADS, KV_HEADS, HEAD_DIM, None, causal=False),
}


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(11)


def rotation(positions: torch.Tensor) -> Rotation:
    angle = positions.unsqueeze(-1) * 1e7 ** (-torch.arange(HEAD_DIM // 2, device=CUDA) / (HEAD_DIM // 2))
    return Rotation(angle.cos(), angle.sin())


def norms() -> HeadNorms:
    return HeadNorms(torch.randn(HEAD_DIM, device=CUDA) * 0.2, torch.randn(HEAD_DIM, device=CUDA) * 0.2, EPSILON)


def attention_exactly(
    shape: BlockShape, ring: Ring, projected: torch.Tensor, norm: HeadNorms, angles: Rotation, length: int, slot: int
) -> torch.Tensor:
    """One row in float64, from the stored context: [columns, query_heads * head_dim]."""
    heads = projected.double().view(1, projected.shape[1], -1, HEAD_DIM)
    query, key, value = torch.split(heads, [HEADS, KV_HEADS, KV_HEADS], dim=2)
    query = rotated_exactly(query, norm.query, EPSILON, angles)[0].transpose(0, 1)  # [heads, columns, head_dim]
    key, value = rotated_exactly(key, norm.key, EPSILON, angles)[0], value[0]
    columns, position = projected.shape[1], torch.arange(max(0, length - ring.tokens), length, device=CUDA)
    past = [pool[0, slot, :, position % ring.tokens].double() for pool in (ring.keys, ring.values)]
    keys, values = (
        torch.cat((old, new.transpose(0, 1)), dim=1).repeat_interleave(shape.group, dim=0)
        for old, new in zip(past, (key, value), strict=True)
    )
    column = torch.arange(columns, device=CUDA)
    window = 1 << 30 if shape.window is None else shape.window
    seen = length + column.unsqueeze(1) - position < window
    own = column <= column.unsqueeze(1) if shape.causal else torch.ones_like(column <= column.unsqueeze(1))
    scores = query @ keys.transpose(1, 2) * HEAD_DIM**-0.5
    weights = scores.masked_fill(~torch.cat((seen, own), dim=1), float("-inf")).softmax(-1)
    read: torch.Tensor = (weights @ values).transpose(0, 1).flatten(1)
    return read


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("columns", [8, 16])
def test_attention_of_a_block(kind: str, columns: int) -> None:
    shape, route, norm = SHAPES[kind], block_attention.select(CUDA, "auto"), norms()
    ring_tokens = 4096 if shape.window is None else RING
    ring = Ring(
        *(torch.full((1, SLOTS, KV_HEADS, ring_tokens, HEAD_DIM), float("nan"), dtype=BF16).cuda() for _ in "kv")
    )
    lengths = [0, 1, 63, 700, RING, 4000, 3000, 2500]
    slots, length = torch.randperm(SLOTS).cuda(), torch.tensor(lengths).cuda()
    stored = torch.randn(SLOTS, 4000, 1, 2, KV_HEADS, HEAD_DIM, device=CUDA).to(BF16)
    context = rotation(torch.arange(4000, device=CUDA).expand(SLOTS, -1))
    first = torch.zeros(SLOTS, dtype=torch.int64, device=CUDA)
    route.store(ring, stored, norm.key.unsqueeze(0), EPSILON, context, slots, first, length)
    last = rotated_exactly(
        stored[5:6, 3999:, 0, 0].double(), norm.key, EPSILON, rotation(torch.full((1, 1), 3999).cuda())
    )
    BF16_OPERATION.check(ring.keys[0, slots[5], :, 3999 % ring_tokens], last[0, 0])
    projected = torch.randn(SLOTS, columns, (HEADS + 2 * KV_HEADS) * HEAD_DIM, device=CUDA).to(BF16)
    angles = rotation(length.unsqueeze(1) + torch.arange(columns, device=CUDA))
    inputs = (shape, ring, 0, projected, norm, angles, slots, length, HEAD_DIM**-0.5)
    y = route.attend(*inputs)
    for row in range(SLOTS):
        of_row = Rotation(angles.cos[row : row + 1], angles.sin[row : row + 1])
        exact = attention_exactly(shape, ring, projected[row : row + 1], norm, of_row, lengths[row], int(slots[row]))
        BF16_OPERATION.check(y[row], exact)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = route.attend(*inputs)
    graph.replay()
    assert torch.equal(captured, y)
    alone = route.attend(
        shape, ring, 0, projected[6:7], norm, Rotation(angles.cos[6:7].clone(), angles.sin[6:7].clone()),
        slots[6:7].clone(), length[6:7].clone(), HEAD_DIM**-0.5,
    )  # fmt: skip
    assert torch.equal(alone[0], y[6])


@pytest.mark.parametrize("rows", [1, 8])
def test_the_convolution_over_a_block(rows: int) -> None:
    x, residual = (torch.randn(rows, 8, WIDTH, device=CUDA).to(BF16) for _ in "xr")
    base = torch.randn(2, WIDTH, device=CUDA).to(BF16)
    delta = torch.randn(rows, 8, 2, 2, WIDTH // 16, device=CUDA).to(BF16)[:, :, 1]
    factor = base.double() + delta.double().repeat_interleave(16, dim=-1)
    before = torch.nn.functional.pad(x.double(), (0, 0, 1, 0))[:, :8]
    exact = residual.double() + factor[:, :, 0] * x.double() + factor[:, :, 1] * before
    BF16_OPERATION.check(block_conv.select(CUDA, "auto")(x, base, delta, residual), exact)


@pytest.mark.parametrize(("rows", "proposed"), [(1, 248_320), (8, 248_320), (8, 131_072)])
def test_the_walk_at_full_size(rows: int, proposed: int) -> None:
    drafts, rank, vocabulary = 7, 256, 248_320
    logits = ((torch.randn(rows, drafts, proposed, device=CUDA) * 16).round() / 4).to(BF16)
    ids = None if proposed == vocabulary else torch.randperm(vocabulary, device=CUDA)[:proposed]
    codes = Codebooks(*(torch.randn(vocabulary, rank, device=CUDA).to(BF16) * 0.3 for _ in "ps"))
    states = torch.randn(rows, drafts, rank, device=CUDA).to(BF16)
    anchors = torch.randint(0, vocabulary, (rows,), device=CUDA)
    positions = torch.arange(drafts, device=CUDA) + 50 * torch.arange(rows, device=CUDA).unsqueeze(1)
    heat = torch.tensor([0.7, 0.0, 1.0, 2.0] * 2, device=CUDA)[:rows]
    inputs = (logits, ids, states, codes, LogitTransform(), anchors, positions, heat, torch.arange(rows, device=CUDA))
    expected = draft_walk.select(CUDA, "reference")(*inputs)
    made = draft_walk.select(CUDA, "auto")(*inputs)
    assert made.law_ids.shape == (rows, drafts, CHOICES)
    assert torch.equal(made.law_ids, expected.law_ids)
    assert torch.equal(made.token_ids, expected.token_ids)
    torch.testing.assert_close(made.probabilities, expected.probabilities, atol=2e-5, rtol=1e-3)
