"""What drafters use of the family's model on a CUDA device: the next-token head and the reduced head, by kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
import torch
from ninfer_models.qwen_hybrid.geometry import build_geometry
from ninfer_models.qwen_hybrid.inventory import build_inventory
from ninfer_models.qwen_hybrid.text import TextModel, build_text_model

from ninfer_core.api import ArtifactHeader, Kernels
from ninfer_core.artifact import open_artifact
from ninfer_core.artifact.encoding import encoded_artifact
from ninfer_core.plugins import PluginRegistry
from ninfer_core.testing.harness import ModelHarness
from ninfer_core.testing.tolerances import BF16_LOGITS, Agreement
from tests.gpu.test_family import AGREEING, RandomWeights, _header

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

DEVICE = "cuda"
W = 4


def built(header: ArtifactHeader, dtype: str, device: str) -> tuple[TextModel, ModelHarness]:
    """The model with its head, and pages of one layer for the head alone."""
    kernels: Kernels = "reference" if dtype == "float32" else "auto"
    where = torch.device(device)
    model = build_text_model(header, dtype, W, RandomWeights(header), where, kernels, groups=("text", "mtp"))
    geometry = build_geometry(header, dtype)
    one = msgspec.structs.replace(geometry.attention, layers=1)
    alone = msgspec.structs.replace(geometry, attention=one, state=(), records=())
    return model, ModelHarness(model, alone, device=where, activation_dtype=dtype, columns=W)


@torch.inference_mode()
def drafted(header: ArtifactHeader, dtype: str, device: str) -> torch.Tensor:
    """Logits of drafts behind every column: of the prompts of two rows, and of three rounds of both, one of which has
    several columns."""
    model, pages = built(header, dtype, device)
    head = model.next_token_head
    assert head is not None
    generator = torch.Generator().manual_seed(4)
    hidden = torch.randn(2, 64, 64, generator=generator).to(device, getattr(torch, dtype))
    tokens = torch.randint(0, 512, (2, 64), generator=generator).tolist()
    logits = []
    for slot in (0, 1):
        pages.begin(slot)
        batch = pages.batch([slot], [tokens[slot][:40]], [0], prefill=True)
        seen = head(batch.token_ids, hidden[slot : slot + 1, :40], batch.positions, batch.cache)
        logits.append(model.draft_logits(seen).flatten(0, 1))
        pages.advance(slot, 40)
    for start, stop in ((40, 44), (44, 45), (45, 46)):
        batch = pages.batch([0, 1], [row[start:stop] for row in tokens], [0, 0], prefill=False)
        seen = head(batch.token_ids, hidden[:, start:stop], batch.positions, batch.cache)
        logits.append(model.draft_logits(seen).flatten(0, 1))
        for slot in (0, 1):
            pages.advance(slot, stop - start)
    return torch.cat(logits).float().cpu()


@AGREEING
def test_the_next_token_head_agrees_with_float32_on_the_cpu(config: Mapping[str, Any], tolerance: Agreement) -> None:
    header = _header({**config, "mtp_num_hidden_layers": 1})
    assert any(spec.group == "mtp" for spec in build_inventory(header))
    tolerance.check(drafted(header, "bfloat16", DEVICE), drafted(header, "float32", "cpu"))


@pytest.mark.parametrize("weights", ["bf16", "fp8", "nvfp4"])
@torch.inference_mode()
def test_the_reduced_head_has_rows_of_the_head(weights: str) -> None:
    registry, device = PluginRegistry.discover(), torch.device(DEVICE)
    (offer,) = registry.offers("family")
    artifact = encoded_artifact(open_artifact(None, registry), registry.load(offer), weights)
    with artifact.open_weights() as source:
        model = build_text_model(artifact.header, "bfloat16", W, source, device, groups=("text", "draft_head"))
    ids = model.draft_token_ids
    assert ids is not None
    hidden = torch.randn(3, 2, 256, generator=torch.Generator().manual_seed(5)).to(device, torch.bfloat16)
    reduced, whole = model.draft_logits(hidden), model.logits(hidden.flatten(0, 1)).view(3, 2, -1)
    # Columns of a round and of a draft are padded to other classes, whose sums are in another order.
    BF16_LOGITS.check(reduced.flatten(0, 1).float(), whole[..., ids].flatten(0, 1).float())
