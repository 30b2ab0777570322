"""A toy family and its artifacts: directories and containers of a few kilobytes, written without torch.

The family `toy` has `embed.weight`, `layers.N.proj.weight`, `layers.N.norm.weight` in group `text` and
`mtp.proj.weight` in group `mtp`. It describes; it builds no model and no frontend worth the name.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from ninfer_core.api.artifact import DTYPE_BYTES, TensorSpec
from ninfer_core.testing.plugins import write_plugin_package

VOCABULARY = 16
HIDDEN = 8

FAMILY_MODULE = """
from types import SimpleNamespace
from ninfer_core.api import *

def toy_specs(config, dtype="bfloat16"):
    hidden = config["hidden_size"]
    yield TensorSpec(name="embed.weight", shape=(16, hidden), dtype=dtype)
    for layer in range(config["num_hidden_layers"]):
        yield TensorSpec(name=f"layers.{layer}.proj.weight", shape=(hidden, hidden), dtype=dtype)
        yield TensorSpec(name=f"layers.{layer}.norm.weight", shape=(hidden,), dtype=dtype)
    yield TensorSpec(name="mtp.proj.weight", shape=(hidden, hidden), dtype=dtype, group="mtp")

@hookimpl
def ninfer_family_match(header):
    return header.config.get("model_type") == "toy"

@hookimpl
def ninfer_family_geometry(header, activation_dtype):
    if not isinstance(header.config.get("num_hidden_layers"), int):
        raise ArtifactInvalid(header.source, ["num_hidden_layers must be an integer"])
    layers, hidden = header.config["num_hidden_layers"], header.config["hidden_size"]
    attention = AttentionGeometry(layers=layers, query_heads=2, kv_heads=1, head_dim=hidden // 2)
    state = (StateArray(name="conv", layers=layers, shape=(3, hidden), dtype=activation_dtype),)
    return Geometry(hidden_size=hidden, layers=layers, vocabulary_rows=16, max_positions=64,
                    attention=attention, state=state, records=())

@hookimpl
def ninfer_family_inventory(header):
    return tuple(toy_specs(header.config))

@hookimpl
def ninfer_family_frontend(header):
    if header.resources.get("tokenizer.json") == b"broken":
        raise ArtifactInvalid(header.source, ["tokenizer.json is broken"])
    template = TemplateCapabilities(
        thinking_toggle=False, efforts=(), default_effort=None, preserve_thinking=False, tools=False
    )
    presets = SamplingPresets(thinking=SamplingOptions(), non_thinking=SamplingOptions())
    return SimpleNamespace(capabilities=template, presets=presets, prepare=None, fewest_tokens=None,
                           output_format=SimpleNamespace(decoder=None, parser=None), token_bytes=None,
                           stop_token_ids=(1,), token_domain=16, thinking_control_ids=())

@hookimpl
def ninfer_family_dummies():
    config = {"model_type": "toy", "num_hidden_layers": 2, "hidden_size": 8}
    identity = ArtifactIdentity(model_id="toy-small", weights_id="bf16", family="toy", format_version=0)
    return {"toy-small": ArtifactHeader(source="", identity=identity, config=config, resources={},
                                        tensors=tuple(toy_specs(config)), notes=("a toy",))}
"""

RESOURCES: Mapping[str, bytes] = {
    "tokenizer.json": b'{"model": {}}',
    "chat_template.jinja": "{{ messages }} \u00e9\r\n".encode(),
    "generation_config.json": b"{}\n",
}

_CODES = {
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "int64": "I64",
    "int32": "I32",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
}


def write_toy_family(folder: Path, package: str = "toy-family", name: str = "toy") -> None:
    """Install the family plugin as a package into `folder`, which the caller puts on `sys.path`."""
    write_plugin_package(folder, package, {f"family:{name}": FAMILY_MODULE})


def toy_specs(layers: int = 2, *, dtype: str = "bfloat16", mtp: bool = True) -> list[TensorSpec]:
    specs = [TensorSpec(name="embed.weight", shape=(VOCABULARY, HIDDEN), dtype=dtype)]
    for layer in range(layers):
        specs.append(TensorSpec(name=f"layers.{layer}.proj.weight", shape=(HIDDEN, HIDDEN), dtype=dtype))
        specs.append(TensorSpec(name=f"layers.{layer}.norm.weight", shape=(HIDDEN,), dtype=dtype))
    if mtp:
        specs.append(TensorSpec(name="mtp.proj.weight", shape=(HIDDEN, HIDDEN), dtype=dtype))
    return specs


def toy_bytes(spec: TensorSpec) -> bytes:
    """Bytes that depend on the name alone, and are finite numbers."""
    data = bytearray(random.Random(spec.name).randbytes(spec.bytes))
    if "float" in spec.dtype:
        size = DTYPE_BYTES[spec.dtype]
        # The highest bit of the exponent, in every one of these dtypes.
        data[size - 1 :: size] = bytes(byte & 0xBF for byte in data[size - 1 :: size])
    return bytes(data)


def write_safetensors(path: Path, specs: Sequence[TensorSpec]) -> None:
    """The plainest valid file: no padding, tensors in the given order, contents from `toy_bytes`."""
    members, begin = {}, 0
    for spec in specs:
        end = begin + spec.bytes
        members[spec.name] = {"dtype": _CODES[spec.dtype], "shape": spec.shape, "data_offsets": [begin, end]}
        begin = end
    header = json.dumps(members).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"".join(map(toy_bytes, specs)))


def write_toy_directory(
    folder: Path,
    specs: Sequence[TensorSpec] | None = None,
    *,
    layers: int = 2,
    shards: int = 1,
    config: Mapping[str, object] | None = None,
    resources: Mapping[str, bytes] = RESOURCES,
) -> Path:
    """A Hugging Face directory, with an index when there are several shards. Returns `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = list(toy_specs(layers) if specs is None else specs)
    plain = {"model_type": "toy", "num_hidden_layers": layers, "hidden_size": HIDDEN}
    (folder / "config.json").write_text(json.dumps(plain if config is None else config))
    for name, data in resources.items():
        (folder / name).write_bytes(data)
    if shards == 1:
        write_safetensors(folder / "model.safetensors", whole)
        return folder
    weight_map = {}
    for shard in range(shards):
        name = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        write_safetensors(folder / name, whole[shard::shards])
        weight_map.update({spec.name: name for spec in whole[shard::shards]})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return folder
