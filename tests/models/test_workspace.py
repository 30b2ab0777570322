"""The family's workspace by the references against what a unit of work of a small model takes, on the CPU."""

from __future__ import annotations

import pytest
import torch
from ninfer_models.qwen_hybrid.geometry import build_geometry
from ninfer_models.qwen_hybrid.text import build_text_model
from ninfer_models.qwen_hybrid.workspace import workspace_bytes

from ninfer_core.api import BuildShape
from ninfer_core.artifact.encoding import encoded_artifact
from ninfer_core.plugins import LoadedPlugin, PluginRegistry
from ninfer_core.testing.harness import ModelHarness
from ninfer_core.testing.live_bytes import peak_bytes
from ninfer_core.testing.tiny import tiny_artifact

SLACK_BYTES = 1 << 17


@pytest.fixture(scope="module")
def family() -> LoadedPlugin:
    registry = PluginRegistry.discover()
    (offer,) = registry.offers("family")
    return registry.load(offer)


@pytest.mark.parametrize("experts", [False, True], ids=["dense", "experts"])
@pytest.mark.parametrize(("prefill_tokens", "rows"), [(512, 1), (1, 8), (64, 8)])
@pytest.mark.parametrize("weights", ["fp32", "fp8", "nvfp4"])
def test_units_of_work_stay_within_the_workspace(
    prefill_tokens: int, rows: int, experts: bool, weights: str, family: LoadedPlugin
) -> None:
    artifact = encoded_artifact(tiny_artifact(experts=experts), family, weights)
    header, device = artifact.header, torch.device("cpu")
    with artifact.open_weights() as source:
        model = build_text_model(header, "float32", 1, source, device)
    run = ModelHarness(model, build_geometry(header, "float32"), device=device, max_context=1024)
    for slot in range(rows):
        run.begin(slot)
        run.prefill(slot, [1])
    shape = BuildShape(
        prefill_tokens=prefill_tokens,
        decode_rows=rows,
        decode_columns=1,
        max_context=1024,
        activation_dtype="float32",
        kernels="reference",
    )
    used = max(
        peak_bytes(lambda: run.logits(run.prefill(0, [1] * prefill_tokens)[-1:])),
        peak_bytes(lambda: run.logits(run.decode(range(rows), [[1]] * rows, [0] * rows)[:, 0])),
    )
    bound = workspace_bytes(header, shape)
    assert used <= bound + SLACK_BYTES
    assert bound <= 3 * used


@pytest.mark.parametrize("experts", [False, True], ids=["dense", "experts"])
@pytest.mark.parametrize(("rows", "columns"), [(1, 512), (8, 4), (8, 1)])
def test_the_next_token_head_stays_within_the_workspace(rows: int, columns: int, experts: bool) -> None:
    artifact = tiny_artifact(experts=experts, drafting=True)
    header, device, groups = artifact.header, torch.device("cpu"), ("text", "mtp")
    with artifact.open_weights() as source:
        model = build_text_model(header, "float32", 4, source, device, groups=groups)
    geometry = build_geometry(header, "float32")
    run = ModelHarness(model, geometry, device=device, max_context=1024)
    batch = run.batch(range(rows), [[1] * columns] * rows, [0] * rows, prefill=columns > 4)
    hidden = torch.randn(rows, columns, geometry.hidden_size)
    head = model.next_token_head
    assert head is not None

    def draft() -> torch.Tensor:
        with torch.inference_mode():
            return model.draft_logits(head(batch.token_ids, hidden, batch.positions, batch.cache)[:, :1])

    shape = BuildShape(
        prefill_tokens=columns if columns > 4 else 1,
        decode_rows=rows,
        decode_columns=4,
        max_context=1024,
        activation_dtype="float32",
        kernels="reference",
        groups=groups,
    )
    assert peak_bytes(draft) <= workspace_bytes(header, shape) + SLACK_BYTES
