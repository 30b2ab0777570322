"""The selected acceptor at the sizes that it is made for: what the reference offers, in a graph too."""

from __future__ import annotations

import pytest
import torch

from ninfer_core.ops.accept import Accepted, Drafts, ReferenceAcceptor, select
from ninfer_core.ops.sample import ChosenRows, SamplerTable

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

CUDA = torch.device("cuda")
VOCABULARY, DOMAIN = 248_320, 248_077


def table(slots: int, generator: torch.Generator) -> SamplerTable:
    """Every fourth slot greedy, every other one with penalties."""

    def uniform() -> torch.Tensor:
        return torch.rand(slots, generator=generator)

    slot = torch.arange(slots)
    numbers = (0.2 + uniform() * (slot % 4 > 0), 0.3 + 0.7 * uniform(), 0.1 * uniform(), uniform() * (slot % 2))
    return SamplerTable(
        torch.stack([numbers[0] * (slot % 4 > 0), *numbers[1:], 0.3 * uniform() * (slot % 2)], dim=1).cuda(),
        torch.randint(1, 21, (slots,), generator=generator).cuda(),
        torch.randint(-(1 << 63), (1 << 63) - 1, (slots,), generator=generator).cuda(),
    )


def drafts_for(logits: torch.Tensor, rows: int, columns: int, law_width: int) -> Drafts:
    """Drafts that are kept now and then: drawn from a law over the best tokens of their column."""
    values, best = logits.float().view(rows, columns, -1)[:, :-1, :DOMAIN].topk(max(1, law_width), dim=-1)
    probabilities = values.softmax(-1)
    drawn = torch.multinomial(probabilities.flatten(0, 1), 1).view(rows, columns - 1, 1)
    counts = torch.arange(rows, device=CUDA).flip(0) % columns
    counts[0] = columns - 1
    token_ids = best.gather(2, drawn).squeeze(2)
    return Drafts(token_ids, counts, best, probabilities) if law_width else Drafts(token_ids, counts)


def check(actual: Accepted, expected: Accepted) -> None:
    assert torch.equal(actual.packed[:, :2], expected.packed[:, :2])
    offered = torch.arange(expected.tokens.shape[1], device=CUDA) < expected.offered.unsqueeze(1)
    assert torch.equal(actual.tokens[offered], expected.tokens[offered])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("rows", "columns", "law_width"), [(1, 2, 0), (8, 4, 0), (1, 8, 16), (8, 8, 16), (8, 16, 16)])
def test_what_the_reference_offers_at_full_size(dtype: torch.dtype, rows: int, columns: int, law_width: int) -> None:
    generator = torch.Generator().manual_seed(rows * columns)
    slots = torch.randperm(8, generator=generator)[:rows].cuda()
    # On a grid, so that many are equal, with a few that stand out.
    cuda = torch.Generator(CUDA).manual_seed(columns)
    logits = ((torch.randn(rows * columns, VOCABULARY, device=CUDA, generator=cuda) * 64).round() / 16).to(dtype)
    best = torch.randint(0, DOMAIN, (rows * columns, 24), device=CUDA, generator=cuda)
    logits.scatter_add_(1, best, torch.full_like(best, 14, dtype=dtype))
    counts = torch.randint(0, 4, (8, VOCABULARY), device=CUDA, generator=cuda, dtype=torch.int32)
    positions = torch.arange(columns, device=CUDA) + 100 * torch.arange(rows, device=CUDA).unsqueeze(1)
    drafts, settings = drafts_for(logits, rows, columns, law_width), table(8, generator)
    inputs = (logits, drafts, ChosenRows(settings, counts, slots, positions, DOMAIN))
    expected_candidates = torch.zeros(8, columns, dtype=torch.int64, device=CUDA)
    expected_offered = torch.zeros(8, dtype=torch.int64, device=CUDA)
    expected = ReferenceAcceptor().accept(*inputs, expected_candidates, expected_offered)
    candidates, offered = torch.zeros_like(expected_candidates), torch.zeros_like(expected_offered)
    acceptor = select(CUDA, "auto")
    check(acceptor.accept(*inputs, candidates, offered), expected)
    assert torch.equal(offered, expected_offered)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = acceptor.accept(*inputs, candidates, offered)
    candidates.zero_()
    graph.replay()
    check(captured, expected)
    assert torch.equal(candidates[slots], captured.tokens)
