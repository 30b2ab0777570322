"""The published drafters of the 27B model on a device: in bfloat16 as near to the training code's float32 as plain
operations of torch are, and the same numbers where a round is captured."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import pytest
import torch
from ninfer_speculative import dflash, dflash2

from ninfer_core.api import BuildShape, DraftSampling, Kernels
from tests.speculative.block_oracle import Bench, Kind, draft_header, target_geometry
from tools.tiny_model.drafters import DraftGeometry

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

SIZES = DraftGeometry(
    hidden_size=5120,
    vocab_size=248320,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=128,
    intermediate_size=17408,
    sliding_window=2048,
    rope_theta=10_000_000.0,
    target_layer_ids=(5, 19, 33, 47, 61),
    mask_token_id=248070,
    selector_rank=256,
)
CUDA = torch.device("cuda")
KINDS = {
    "dflash2": Kind(second=True, windows=(2048,) * 5, sizes=SIZES, layers=64, device=CUDA, dtype=torch.bfloat16),
    "dflash": Kind(
        second=False,
        windows=(2048, 2048, 2048, 2048, None),
        causal=None,
        sizes=dataclasses.replace(SIZES, target_layer_ids=(1, 16, 31, 46, 61)),
        layers=64,
        columns=16,
        device=CUDA,
        dtype=torch.bfloat16,
    ),
}
TOKENS = 2600
"""More than the window."""
ROUNDINGS = {"dflash2": 0.12, "dflash": 0.01}
"""Of hidden states, in plain operations. On an H200 0.0069 and 0.0070 of them in DFlash; in DFlash2, whose random
convolutions make roundings grow from layer to layer, 0.048 behind 2,603 tokens and 0.093 behind 71. Kernels were at
0.94 to 1.0 of that."""
MORE = 1.2
"""Times those of plain operations: sums in another order, whose roundings grow likewise."""


@pytest.fixture(params=KINDS, scope="module")
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    torch.cuda.empty_cache()
    with torch.inference_mode():
        made = Bench(KINDS[request.param], max_context=TOKENS + 64)
    yield made


def share(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found.double() - expected.double()).norm() / expected.double().norm())


def hidden_of(bench: Bench) -> torch.Tensor:
    """Of the mask tokens, after prompts in chunks and a round with several columns for one of two sequences."""
    for slot, length in ((2, TOKENS), (0, 70)):
        for start in range(0, length, 1024):
            bench.ingest(slot, start, min(start + 1024, length))
    bench.propose([2, 0], [TOKENS, 70], [3, 1])
    assert bench.model.hidden is not None
    return bench.model.hidden.clone()


@torch.inference_mode()
def test_hidden_states_are_as_near_as_those_of_plain_operations(bench: Bench) -> None:
    found = hidden_of(bench)
    plain = hidden_of(Bench(dataclasses.replace(bench.kind, kernels="reference"), max_context=bench.max_context))
    for row, (slot, length) in enumerate(((2, TOKENS + 3), (0, 71))):
        exact, _ = bench.expected(slot, length)
        ours, theirs = share(found[row], exact), share(plain[row], exact)
        limit = ROUNDINGS["dflash2" if bench.kind.second else "dflash"]
        assert theirs < limit, "roundings of bfloat16, and not another computation"
        assert ours < MORE * theirs, (ours, theirs)


@torch.inference_mode()
def test_a_captured_proposal_is_the_one_that_is_launched(bench: Bench) -> None:
    """And does not depend on who else is in the round."""
    hidden_of(bench)
    columns = bench.columns([2, 0, 1], [TOKENS + 3, 71, 0], [2, 1, 1], bench.kind.columns)
    sampling = DraftSampling(torch.tensor([0.0, 0.7, 1.0], device=CUDA), torch.arange(3, device=CUDA))
    launched = bench.drafter.propose(columns, sampling)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = bench.drafter.propose(columns, sampling)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(captured.token_ids, launched.token_ids)
    for name in ("law_ids", "probabilities"):
        there = getattr(launched, name)
        assert there is None or torch.equal(getattr(captured, name), there)
    alone = bench.propose([2], [TOKENS + 3], [2])
    assert torch.equal(alone.token_ids[0], launched.token_ids[0])


@torch.inference_mode()
@pytest.mark.parametrize("kernels", ["auto", "reference"])
def test_the_workspace_holds_a_chunk_and_a_round(bench: Bench, kernels: Kernels) -> None:
    """And is not far above what they take."""
    kind, rows = bench.kind, 4
    tried = bench if kernels == "auto" else Bench(dataclasses.replace(kind, kernels=kernels), max_context=TOKENS + 64)
    shape = BuildShape(
        prefill_tokens=1024,
        decode_rows=rows,
        decode_columns=kind.columns,
        max_context=TOKENS + 64,
        activation_dtype="bfloat16",
        kernels=kernels,
    )
    plugin, geometry = dflash2 if kind.second else dflash, target_geometry(kind.sizes, kind.layers)
    bound = plugin.ninfer_spec_needs(draft_header(kind, tried.oracle), geometry, shape).workspace_bytes
    prompt = tried.columns([0], [0], [1024], 1024)
    columns = tried.columns(list(range(rows)), [1024] * rows, [1] * rows, kind.columns)
    sampling = tried.sampling(columns.slots, 0.7)
    used = {
        "chunk": bytes_of(lambda: tried.drafter.ingest(prompt)),
        "round": bytes_of(lambda: tried.drafter.propose(columns, sampling)),
    }
    assert max(used.values()) <= bound, f"{used} of {bound}"
    assert max(used.values()) >= bound / 3, f"the bound is far above what is used: {used} of {bound}"


def bytes_of(work: Callable[[], object]) -> int:
    """The most that was allocated at once; the first time what it allocates for good."""
    work()
    torch.cuda.synchronize()
    held = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    result = work()
    torch.cuda.synchronize()
    del result
    return torch.cuda.max_memory_allocated() - held
