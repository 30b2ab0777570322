"""What drafters use of the model: the next-token head against the code that it was trained with, taps, reduced head."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import torch
from ninfer_models import qwen_hybrid
from ninfer_models.qwen_hybrid.geometry import build_geometry
from ninfer_models.qwen_hybrid.reduced_head import REDUCED_HEAD
from ninfer_models.qwen_hybrid.resident import DRAFT_HEAD, build_resident
from torch.nn import functional

from ninfer_core.api import FINAL_HIDDEN, ArtifactHeader, ArtifactInvalid, BuildShape, DraftableModel
from ninfer_core.artifact import open_artifact
from ninfer_core.artifact.encoding import encoded_artifact
from ninfer_core.artifact.handle import ArtifactHandle
from ninfer_core.artifact.weights import OpenWeights
from ninfer_core.plugins import PluginRegistry
from ninfer_core.testing.harness import ModelHarness
from ninfer_core.testing.tiny import TinyStore, tiny_header
from ninfer_core.testing.tolerances import FP32_LOGITS
from tools.tiny_model.drafters import MultiTokenHead
from tools.tiny_model.geometry import Geometry

CPU = torch.device("cpu")
W = 4


def build(artifact: ArtifactHandle, *groups: str, taps: tuple[int, ...] = ()) -> Any:
    shape = BuildShape(
        prefill_tokens=64,
        decode_rows=8,
        decode_columns=W,
        max_context=256,
        activation_dtype="float32",
        groups=("text", *groups),
        taps=taps,
    )
    with artifact.open_weights() as weights:
        return qwen_hybrid.ninfer_family_build(artifact.header, shape, weights, CPU)


@pytest.fixture(scope="module")
def embedded() -> ArtifactHandle:
    return open_artifact(None, PluginRegistry.discover())


@pytest.fixture(scope="module")
def trained(embedded: ArtifactHandle) -> Iterator[MultiTokenHead]:
    head = MultiTokenHead(Geometry.read())
    with embedded.open_weights() as weights, torch.no_grad():
        for name, parameter in head.named_parameters():
            parameter.copy_(weights.read(f"mtp.{name}", CPU))
        yield head.eval()


def harness(model: Any, header: ArtifactHeader, **fields: Any) -> ModelHarness:
    return ModelHarness(model, build_geometry(header, "float32"), device=CPU, columns=W, **fields)


def head_harness(model: Any, header: ArtifactHeader) -> ModelHarness:
    """Pages of one layer, for the cache of the head alone."""
    geometry = build_geometry(header, "float32")
    attention = msgspec.structs.replace(geometry.attention, layers=1)
    alone = msgspec.structs.replace(geometry, attention=attention, state=(), records=())
    return ModelHarness(model, alone, device=CPU, columns=W)


@torch.inference_mode()
def test_the_head_is_what_training_made_of_it(embedded: ArtifactHandle, trained: MultiTokenHead) -> None:
    """A prompt in two parts, a round of several columns of which two are written over, and one column by itself."""
    model = build(embedded, "mtp")
    tokens = torch.randint(0, 4000, (1, 71), generator=torch.Generator().manual_seed(3))
    run = harness(model, embedded.header)
    run.begin(0)
    hidden = run.prefill(0, tokens[0, :-1].tolist())[None]
    ahead, positions = tokens[:, 1:], torch.arange(70)[None]
    expected = trained.depth(
        trained.join(functional.embedding(ahead, model.embed(torch.arange(4096))), hidden),
        positions,
        [],
        torch.ones(70, 70, dtype=torch.bool).tril()[None, None],
    )
    pages = head_harness(model, embedded.header)
    pages.begin(0)
    junk = torch.randn(2, 256)
    found = []
    for start, stop, kept in ((0, 40, 40), (40, 65, 25), (65, 69, 2), (67, 70, 3)):
        given = hidden[:, start:stop].clone()
        given[:, kept:] = junk[: stop - start - kept]
        batch = pages.batch([0], [ahead[0, start:stop].tolist()], [0], prefill=stop - start > W)
        found.append(model.next_token_head(batch.token_ids, given, batch.positions, batch.cache)[:, :kept])
        pages.advance(0, kept)
    FP32_LOGITS.check(torch.cat(found, dim=1), expected)


@torch.inference_mode()
def test_positions_turn_the_head_as_they_turn_the_model(embedded: ArtifactHandle) -> None:
    model = build(embedded, "mtp")
    pages = head_harness(model, embedded.header)
    pages.begin(0)
    hidden = torch.randn(1, 3, 256, generator=torch.Generator().manual_seed(1))
    batch = pages.batch([0], [[5, 6, 7]], [0], prefill=False)
    here = model.next_token_head(batch.token_ids, hidden, batch.positions, batch.cache)
    moved = model.next_token_head(batch.token_ids, hidden, batch.positions + 50, batch.cache)
    FP32_LOGITS.check(moved, here)
    apart = model.next_token_head(batch.token_ids, hidden, batch.positions * 3, batch.cache)
    assert (apart - here).abs().max() > 1e-3


TAPS = (2, FINAL_HIDDEN, 0, 2)


@pytest.mark.parametrize("experts", [False, True], ids=["dense", "experts"])
def test_taps_see_the_residual_stream_behind_their_layers(experts: bool) -> None:
    header = tiny_header(experts=experts)
    model = build(ArtifactHandle(header=header, notes=(), store=TinyStore(header)), taps=TAPS)
    run = harness(model, header)
    run.begin(0)
    seen: dict[int, torch.Tensor] = {}
    batch = run.batch([0], [list(range(20))], [0], prefill=True)
    kept = torch.full((1, 20, len(TAPS), header_size(header)), torch.nan)
    tapped = dataclasses.replace(batch, features=kept)
    with torch.inference_mode():
        hidden = model.prefill_observed(tapped, lambda layer, x: seen.update({layer: x.clone()}))
        assert torch.equal(kept, torch.stack((seen[2], hidden, seen[0], seen[2]), dim=2))
    # Rounds keep what a prompt with the same tokens would have kept.
    run.begin(1)
    run.prefill(1, list(range(16)))
    batch = run.batch([1], [[16, 17, 18, 19]], [0], prefill=False)
    of_round = torch.full((1, 4, len(TAPS), header_size(header)), torch.nan)
    with torch.inference_mode():
        model.decode(dataclasses.replace(batch, features=of_round))
    FP32_LOGITS.check(of_round, kept[:, 16:])


def header_size(header: ArtifactHeader) -> int:
    return build_geometry(header, "float32").hidden_size


@pytest.mark.parametrize("weights", ["bf16", "fp8", "nvfp4"])
def test_a_reduced_head_gives_the_logits_of_its_tokens(embedded: ArtifactHandle, weights: str) -> None:
    registry = PluginRegistry.discover()
    (offer,) = registry.offers("family")
    artifact = encoded_artifact(embedded, registry.load(offer), weights)
    model, whole = build(artifact, "draft_head"), build(artifact)
    assert isinstance(model, DraftableModel) and whole.draft_token_ids is None and whole.next_token_head is None
    ids = model.draft_token_ids
    assert ids is not None and ids.dtype == torch.int64 and 0 < len(ids) < 4096
    hidden = torch.randn(3, 2, 256)
    FP32_LOGITS.check(model.draft_logits(hidden), whole.draft_logits(hidden)[..., ids])
    planned = build_resident(artifact.header, "float32", ("text", "draft_head"))
    held = [spec for spec in planned if spec.name.startswith(DRAFT_HEAD)]
    assert all(spec.shape[0] == len(ids) for spec in held)
    assert {spec.dtype for spec in held} <= {"float32", "float8_e4m3fn", "uint8"}


def test_a_reduced_head_of_tokens_that_are_none_is_refused(embedded: ArtifactHandle) -> None:
    class Wrong:
        def __init__(self, right: OpenWeights) -> None:
            self.expect, self.read_into, self.right = right.expect, right.read_into, right

        def read(self, name: str, device: torch.device) -> torch.Tensor:
            tensor = self.right.read(name, device)
            if name == REDUCED_HEAD:
                tensor[:3] = torch.tensor([-1, 4096, 4095])
            return tensor

    shape = BuildShape(
        prefill_tokens=64,
        decode_rows=8,
        decode_columns=W,
        max_context=256,
        activation_dtype="float32",
        groups=("text", "draft_head"),
    )
    with embedded.open_weights() as right, pytest.raises(ArtifactInvalid) as caught:
        qwen_hybrid.ninfer_family_build(embedded.header, shape, Wrong(right), CPU)
    assert "2 of the" in str(caught.value) and "0..4095" in str(caught.value)
