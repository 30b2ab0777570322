"""The family's workspace against what units of the published shapes allocate by the routes of a CUDA device."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import msgspec
import pytest
import torch
from ninfer_kvformats.bf16 import Bf16Codec, ninfer_kv_layout
from ninfer_models.qwen_hybrid import text
from ninfer_models.qwen_hybrid import weights as weights_module
from ninfer_models.qwen_hybrid.geometry import build_geometry
from ninfer_models.qwen_hybrid.layers import Routes
from ninfer_models.qwen_hybrid.workspace import workspace_bytes

from ninfer_core.api import ArtifactHeader, BuildShape
from ninfer_core.artifact import open_artifact
from ninfer_core.artifact.encoding import encoded_artifact
from ninfer_core.ops import delta_mixer, partial_rope, rms_norm
from ninfer_core.ops.paged_attention import AttentionShape
from ninfer_core.ops.workspace import with_room
from ninfer_core.plugins import PluginRegistry
from ninfer_core.testing.harness import PAGE_TOKENS, ModelHarness
from ninfer_core.testing.live_bytes import peak_bytes
from ninfer_core.testing.unlaunched import unlaunched

LAYERS, ROWS, CONTEXT = 4, 8, 4096
"""Every kind of layer is among the first four."""
CHUNKS, COLUMNS = (33, 65, 128, 1024), (1, 16)
LOOSEST = 1.2
"""A bound may be this many times what is used, room for the allocator aside."""


@pytest.fixture(scope="module")
def device() -> Iterator[torch.device]:
    pytest.importorskip("triton")
    with unlaunched() as device:
        yield device


class NoWeights:
    """Shapes alone."""

    def __init__(self, header: ArtifactHeader, device: torch.device) -> None:
        self._specs, self._device = {spec.name: spec for spec in header.tensors}, device

    def expect(self, names: Iterable[str]) -> None:
        return

    def read(self, name: str, device: torch.device) -> torch.Tensor:
        spec = self._specs[name]
        return torch.empty(spec.shape, dtype=getattr(torch, spec.dtype), device=self._device)

    def read_into(self, name: str, out: torch.Tensor, start: int = 0) -> None:
        return


def header_of(name: str, weights: str) -> ArtifactHeader:
    registry = PluginRegistry.discover()
    (offer,) = registry.offers("family")
    artifact = open_artifact(f"dummy:{name}", registry)
    header = (artifact if weights == "bf16" else encoded_artifact(artifact, registry.load(offer), weights)).header
    config = {**header.config, "num_hidden_layers": LAYERS}
    if isinstance(kinds := config.get("layer_types"), list):
        config["layer_types"] = kinds[:LAYERS]
    return msgspec.structs.replace(header, config=config)


def cuda_routes(device: torch.device) -> Routes:
    """Those that `select` gives a CUDA device, with what they keep of their own on `device`."""
    from ninfer_core.ops.linear.select import triton_route
    from ninfer_core.ops.moe.routes import kernel_routes

    cuda, linear = torch.device("cuda"), triton_route(device)
    return Routes(
        linear=linear,
        rms_norm=rms_norm.select(cuda, "auto"),
        rope_angles=partial_rope.select(cuda, "auto"),
        mixer=delta_mixer.select(cuda, "auto"),
        experts=kernel_routes(device, linear),
    )


class Bench:
    """A model of few layers, whose units are measured."""

    def __init__(self, header: ArtifactHeader, device: torch.device, columns: int) -> None:
        from ninfer_core.ops.paged_attention.select import triton_routes

        self._columns = columns
        self._model = text.build_text_model(header, "bfloat16", columns, NoWeights(header, device), device)
        self._geometry = build_geometry(header, "bfloat16")
        attention = self._geometry.attention
        self._run = ModelHarness(
            self._model,
            self._geometry,
            device=device,
            activation_dtype="bfloat16",
            slots=ROWS,
            columns=columns,
            max_context=CONTEXT,
        )
        shape = AttentionShape(
            query_heads=attention.query_heads,
            kv_heads=attention.kv_heads,
            head_dim=attention.head_dim,
            page_tokens=PAGE_TOKENS,
            decode_columns=columns,
            max_context=CONTEXT,
            activation_dtype=torch.bfloat16,
        )
        self._attention = triton_routes(Bf16Codec(ninfer_kv_layout(attention.head_dim)), shape)

    def prefill_bytes(self, tokens: int) -> int:
        return self._unit_bytes(1, tokens, prefill=True)

    def decode_bytes(self, rows: int) -> int:
        return self._unit_bytes(rows, self._columns, prefill=False)

    def _unit_bytes(self, rows: int, columns: int, *, prefill: bool) -> int:
        batch = self._run.batch(range(rows), [[1] * columns] * rows, [0] * rows, prefill=prefill)
        cache = dataclasses.replace(batch.cache, attention=self._attention)  # type: ignore[type-var]
        batch = dataclasses.replace(batch, cache=cache)

        def unit() -> torch.Tensor:
            hidden = (self._model.prefill if prefill else self._model.decode)(batch)
            return self._model.logits(hidden[0, -1:] if prefill else hidden.flatten(0, 1)).float()

        return peak_bytes(unit)


@pytest.mark.parametrize("weights", ["bf16", "fp8", "nvfp4"])
@pytest.mark.parametrize("name", ["qwen3.8-27b", "qwen3.6-35b-a3b"])
def test_units_of_a_published_shape_take_what_is_counted(
    name: str, weights: str, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "select_routes", lambda device, kernels: cuda_routes(device))
    monkeypatch.setattr(weights_module, "arrange", lambda codes: None)  # of codes that are not there
    header = header_of(name, weights)
    for columns in COLUMNS:
        bench = Bench(header, device, columns)
        prefills = {chunk: bench.prefill_bytes(chunk) for chunk in CHUNKS}
        decodes = {rows: bench.decode_bytes(rows) for rows in (1, ROWS)}
        for chunk, used in prefills.items():
            assert with_room(used) <= bound(header, columns, chunk, 1), f"{used} used by a chunk of {chunk}"
        for rows, used in decodes.items():
            assert with_room(used) <= bound(header, columns, 1, rows), f"{used} used by {rows} rows of {columns}"
        most = max(*prefills.values(), *decodes.values())
        assert bound(header, columns, max(CHUNKS), ROWS) <= with_room(int(LOOSEST * most))


def bound(header: ArtifactHeader, columns: int, chunk: int, rows: int) -> int:
    shape = BuildShape(
        prefill_tokens=chunk,
        decode_rows=rows,
        decode_columns=columns,
        max_context=CONTEXT,
        activation_dtype="bfloat16",
    )
    return workspace_bytes(header, shape)
