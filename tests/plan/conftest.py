"""A registry of fake plugins, an artifact in memory and devices of any size: plans without torch or files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ninfer_core.api.artifact import ArtifactHeader, ArtifactIdentity, TensorSpec
from ninfer_core.api.plan import DeviceInfo
from ninfer_core.plugins.registry import PluginRegistry
from ninfer_core.testing.plugins import entry_points_in, write_plugin_package

FAMILY_SOURCE = """
from types import SimpleNamespace
from ninfer_core.api import (
    AttentionGeometry, Geometry, SamplingOptions, SamplingPresets, StateArray, TemplateCapabilities, TensorSpec,
    hookimpl,
)

@hookimpl
def ninfer_family_match(header):
    return header.identity.family == "toy"

@hookimpl
def ninfer_family_geometry(header, activation_dtype):
    numbers = header.config
    return Geometry(
        hidden_size=64,
        layers=8,
        vocabulary_rows=512,
        max_positions=numbers["positions"],
        attention=AttentionGeometry(layers=2, query_heads=4, kv_heads=2, head_dim=numbers["head_dim"]),
        state=(StateArray(name="recurrent", layers=6, shape=(4, 16, 16), dtype="float32"),),
        records=(
            StateArray(name="column", layers=6, shape=(96,), dtype=activation_dtype, kept=3),
            StateArray(name="key", layers=6, shape=(4, 16), dtype="float32"),
        ),
    )

@hookimpl
def ninfer_family_inventory(header):
    embed = TensorSpec(name="embed", shape=(512, 64), dtype="bfloat16")
    head = TensorSpec(name="mtp.fc", shape=(64, 128), dtype="bfloat16", group="mtp")
    # As a real one, whose reduced head is listed only where it is stored: only then is it known how long it is.
    reduced = (spec for spec in header.tensors if spec.group == "draft_head")
    return (embed, *((head,) if header.config.get("mtp") else ()), *reduced)

@hookimpl
def ninfer_family_resident(header, activation_dtype):
    return (TensorSpec(name="embed", shape=(512, 64), dtype=activation_dtype),)

@hookimpl
def ninfer_family_workspace(header, shape):
    return shape.prefill_tokens * 4096 + shape.decode_rows * shape.decode_columns * 8192 + shape.max_context * 16

@hookimpl
def ninfer_family_frontend(header):
    able = header.config.get("thinking", True)
    return SimpleNamespace(
        capabilities=TemplateCapabilities(
            thinking_toggle=able, efforts=(), default_effort=None, preserve_thinking=able, tools=True
        ),
        presets=SamplingPresets(
            thinking=SamplingOptions(temperature=1.0), non_thinking=SamplingOptions(temperature=0.7)
        ),
        prepare=None,
        fewest_tokens=None,
        output_format=SimpleNamespace(decoder=None, parser=None),
        token_bytes=None,
        stop_token_ids=(1,),
        token_domain=header.config.get("tokens", 490),
        thinking_control_ids=(),
    )
"""
KV_SOURCE = """
from ninfer_core.api import KVLayout, KVPlane, PluginIncompatible, hookimpl

@hookimpl
def ninfer_kv_layout(head_dim):
    if head_dim % 16:
        raise PluginIncompatible(f"stores head dimensions that are multiples of 16, not {head_dim}")
    return KVLayout(planes=(
        KVPlane(part="key", name="values", dtype="bfloat16", elements=head_dim),
        KVPlane(part="value", name="values", dtype="bfloat16", elements=head_dim),
    ), device_functions=True)
"""
PROTOCOL_SOURCE = "from ninfer_core.api import hookimpl\n\n@hookimpl\ndef ninfer_protocol_build(context):\n    ...\n"

MakeRegistry = Callable[..., PluginRegistry]


@pytest.fixture
def make_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeRegistry:
    """A registry of the toy plugins and of more packages: name -> {`kind:name`: source}, each with its manifest if
    that is not a plain one."""

    def make(more: dict[str, dict[str, str]] | None = None, manifests: dict[str, str] | None = None) -> PluginRegistry:
        folder = tmp_path / "packages"
        if not folder.exists():
            folder.mkdir()
        unique = tmp_path.name.replace("-", "_")
        base = {"family:toy": FAMILY_SOURCE, "kv:bf16": KV_SOURCE, "protocol:talk": PROTOCOL_SOURCE}
        write_plugin_package(folder, "toy-plugins", base, import_name=f"toy_plugins_{unique}")
        for package, plugins in (more or {}).items():
            import_name = f"{package.replace('-', '_')}_{unique}"
            manifest = (manifests or {}).get(package)
            write_plugin_package(folder, package, plugins, import_name=import_name, manifest=manifest)
        monkeypatch.syspath_prepend(str(folder))
        return PluginRegistry.discover(entry_points_in(folder), {})

    return make


@pytest.fixture
def registry(make_registry: MakeRegistry) -> PluginRegistry:
    return make_registry()


class Toy:
    """Artifacts and devices, made by number."""

    @staticmethod
    def header(
        *, positions: int = 32768, head_dim: int = 32, thinking: bool = True, family: str = "toy", tokens: int = 490
    ) -> ArtifactHeader:
        return ArtifactHeader(
            source="toy.ninfer",
            identity=ArtifactIdentity(model_id="toy-1", weights_id="bf16", family=family, format_version=1),
            config={"positions": positions, "head_dim": head_dim, "thinking": thinking, "tokens": tokens},
            resources={},
            tensors=(TensorSpec(name="embed", shape=(512, 64), dtype="bfloat16"),),
        )

    @staticmethod
    def cuda(memory_bytes: int = 8 * 2**30) -> DeviceInfo:
        return DeviceInfo(kind="cuda", index=0, name="GPU", memory_bytes=memory_bytes, compute_capability="9.0")

    @staticmethod
    def cpu(memory_bytes: int = 2**34) -> DeviceInfo:
        return DeviceInfo(kind="cpu", index=None, name="CPU (test)", memory_bytes=memory_bytes, compute_capability=None)


@pytest.fixture(scope="session")
def toy() -> Toy:
    return Toy()
