"""The selected sampler at the shape that it is made for: the tokens of the reference on the CPU, in a graph too."""

from __future__ import annotations

import pytest
import torch

from ninfer_core.ops.sample import ChosenRows, ReferenceSampler, SamplerTable, select

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

ROWS, VOCABULARY, DOMAIN = 48, 248_320, 248_077


def inputs() -> tuple[torch.Tensor, SamplerTable, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Every fourth row greedy, every other one with penalties; logits on a grid, so that many are equal."""
    generator = torch.Generator().manual_seed(0)

    def uniform() -> torch.Tensor:
        return torch.rand(ROWS, generator=generator)

    row = torch.arange(ROWS)
    numbers = (1.5 * uniform() * (row % 4 > 0), 0.3 + 0.7 * uniform(), 0.1 * uniform(), uniform() * (row % 2))
    table = SamplerTable(
        torch.stack([*numbers, 0.3 * uniform() * (row % 2)], dim=1),
        torch.randint(1, 21, (ROWS,), generator=generator),
        torch.randint(-(1 << 63), (1 << 63) - 1, (ROWS,), generator=generator),
    )
    logits = (torch.randn(ROWS, VOCABULARY, generator=generator) * 64).round() / 16
    counts = torch.randint(0, 4, (ROWS, VOCABULARY), generator=generator, dtype=torch.int32)
    return logits, table, counts, torch.randperm(ROWS, generator=generator), (row * 31).unsqueeze(1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_tokens_of_the_reference_at_full_size(dtype: torch.dtype) -> None:
    logits, table, counts, slots, positions = inputs()
    logits = logits.to(dtype)
    expected = torch.zeros(ROWS, 1, dtype=torch.int64)
    tokens = ReferenceSampler().sample(logits, ChosenRows(table, counts, slots, positions, DOMAIN), expected)
    there = SamplerTable(*(getattr(table, name).cuda() for name in SamplerTable.__slots__))
    rows = ChosenRows(there, *(each.cuda() for each in (counts, slots, positions)), DOMAIN)
    candidates = torch.zeros(ROWS, 1, dtype=torch.int64, device="cuda")
    sampler, on_device = select(torch.device("cuda"), "auto"), logits.cuda()
    assert torch.equal(sampler.sample(on_device, rows, candidates).cpu(), tokens)
    assert torch.equal(candidates.cpu(), expected)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = sampler.sample(on_device, rows, candidates)
    candidates.zero_()
    graph.replay()
    assert torch.equal(captured.cpu(), tokens) and torch.equal(candidates.cpu(), expected)
