"""The workspace that block drafters ask for, against what they take on the CPU."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
import torch
from ninfer_models.qwen_hybrid.geometry import build_geometry
from ninfer_speculative import dflash, dflash2

from ninfer_core.api import BuildShape, TensorSpec
from ninfer_core.api.stored_matrix import NVFP4_CODES
from ninfer_core.artifact import open_artifact
from ninfer_core.ops.workspace import linear
from ninfer_core.ops.workspace.linear_tiles import NVFP4_INPUTS
from ninfer_core.plugins import PluginRegistry
from ninfer_core.testing.live_bytes import peak_bytes
from tests.speculative.block_oracle import SIZES, Bench, Kind, draft_header, dtype_name, target_geometry

SLACK_BYTES = 64 * 1024
LOOSEST = {torch.float32: 2.0, torch.bfloat16: 1.7}
"""A bound may be this many times what is used: what is float32 already is not copied to become so."""
ROWS = 8

WIDE = dataclasses.replace(SIZES, hidden_size=256, intermediate_size=1024, mask_token_id=90)
PLACES = {
    "a long chunk": (dataclasses.replace(WIDE, target_layer_ids=(4, 0, 3)), (20, 20), 1024, 1024),
    "a large vocabulary": (dataclasses.replace(WIDE, vocab_size=8000), (20, 20), 8, 256),
    "a long context": (WIDE, (None, None), 8, 2048),
    "a wide layer": (dataclasses.replace(WIDE, intermediate_size=4096), (20, 20), 8, 64),
}
"""What is largest: sizes, windows, tokens of a chunk, tokens of a context."""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("second", [False, True], ids=["dflash", "dflash2"])
@pytest.mark.parametrize("place", PLACES)
def test_a_drafter_takes_what_it_asks_for(place: str, second: bool, dtype: torch.dtype) -> None:
    sizes, windows, chunk, context = PLACES[place]
    kind = Kind(second=second, windows=windows, sizes=sizes, dtype=dtype, kernels="reference")
    bench = Bench(kind, slots=ROWS, max_context=context + 16)
    shape = BuildShape(
        prefill_tokens=chunk,
        decode_rows=ROWS,
        decode_columns=kind.columns,
        max_context=context + 16,
        activation_dtype=dtype_name(kind),
        kernels="reference",
    )
    plugin = dflash2 if second else dflash
    header = draft_header(kind, bench.oracle)
    bound = plugin.ninfer_spec_needs(header, target_geometry(sizes, kind.layers), shape).workspace_bytes
    prompt = bench.columns([0], [0], [chunk], chunk)
    round_columns = bench.columns(list(range(ROWS)), [0] * ROWS, [kind.columns] * ROWS, kind.columns)
    sampling = bench.sampling(round_columns.slots, 0.7)
    used = max(
        peak_bytes(lambda: bench.drafter.ingest(prompt)),
        peak_bytes(lambda: bench.drafter.propose(round_columns, sampling)),
    )
    assert used <= bound + SLACK_BYTES, f"{used} bytes used, {bound} counted"
    assert bound <= LOOSEST[dtype] * used, f"{bound} bytes counted, {used} used"


def test_kernels_of_a_published_drafter_need_a_tenth_of_the_reference() -> None:
    """At the sizes of the 27B model: the reference chooses among 64-bit keys of all logits, kernels write logits and
    little else. A plan is told of the one that will run."""
    header = open_artifact("dummy:qwen3.8-27b", PluginRegistry.discover()).header
    geometry = build_geometry(header, "bfloat16")
    shape = BuildShape(
        prefill_tokens=1024, decode_rows=8, decode_columns=8, max_context=8192, activation_dtype="bfloat16"
    )
    auto, reference = (
        dflash2.ninfer_spec_needs(header, geometry, msgspec.structs.replace(shape, kernels=kernels)).workspace_bytes
        for kernels in ("auto", "reference")
    )
    logits = 8 * 7 * geometry.vocabulary_rows * 2
    assert logits < auto < 2 * logits
    assert reference > 10 * auto


@pytest.mark.parametrize("hidden_size", [128, 192], ids=["kernels", "none"])
def test_a_head_in_codes_that_no_kernel_takes_is_decoded(hidden_size: int) -> None:
    """Rows of four-bit codes that are no whole sets of exchanged words are multiplied by the reference."""
    sizes = dataclasses.replace(WIDE, hidden_size=hidden_size, vocab_size=8000)
    kind = Kind(second=False, windows=(20, 20), sizes=sizes, dtype=torch.bfloat16)
    header = draft_header(kind, Bench(kind, slots=1, max_context=64).oracle)
    head = TensorSpec(name="lm_head.weight", shape=(sizes.vocab_size, hidden_size // 2), dtype=NVFP4_CODES)
    coded = msgspec.structs.replace(header, tensors=(*header.tensors, head))
    shape = BuildShape(
        prefill_tokens=8, decode_rows=1, decode_columns=kind.columns, max_context=64, activation_dtype="bfloat16"
    )
    geometry = target_geometry(sizes, kind.layers)
    without, bound = (dflash.ninfer_spec_needs(each, geometry, shape).workspace_bytes for each in (header, coded))
    decoded = linear.decoded_bytes(hidden_size, sizes.vocab_size, kind.dtype.itemsize)
    assert (bound - without > decoded // 2) == (hidden_size % NVFP4_INPUTS > 0), (without, bound, decoded)
