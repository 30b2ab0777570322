"""Compiles every kernel that a program of a plan launches, for compute capability 9.0, on a machine without a GPU:

    python tests/program/compile_plan.py ARTIFACT KV_DTYPE WEIGHTS [SPEC DRAFT_TOKENS]

Weights, pools and temporaries are tensors without memory. The last line printed is the number of kernels, and the most
shared memory that one of them wants.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import torch
from triton.backends.compiler import GPUTarget
from triton.compiler import CompiledKernel
from triton.runtime.driver import driver

from ninfer_core.api import DRAFT_CONFIG, ArtifactHeader, DeviceInfo
from ninfer_core.artifact import open_artifact
from ninfer_core.artifact.encoding import encoded_artifact
from ninfer_core.artifact.handle import ArtifactHandle
from ninfer_core.ops import (
    accept,
    delta_mixer,
    linear,
    moe,
    paged_attention,
    partial_rope,
    rms_norm,
    round_start,
    sample,
)
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.pins import resolve_pinned
from ninfer_core.plan.resolve import resolve
from ninfer_core.plugins import PluginRegistry
from ninfer_core.program.build import compile_kernels
from ninfer_core.program.contract import Unit
from ninfer_core.program.loading import build_model
from ninfer_core.program.pools import allocate_pools
from ninfer_core.program.runner import DeviceProgram

META, CUDA = torch.device("meta"), torch.device("cuda")
H200 = DeviceInfo(kind="cuda", index=0, name="H200", memory_bytes=141 * 2**30, compute_capability="9.0")
LAYERS = 8


class NoDevice:
    """What Triton asks of a driver while it compiles."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int | None = None) -> int:
        return 0


class NoWeights:
    """A weight source of shapes alone."""

    def __init__(self, header: ArtifactHeader) -> None:
        self._specs = {spec.name: spec for spec in header.tensors}

    def expect(self, names: Iterable[str]) -> None:
        return

    def read(self, name: str, device: torch.device) -> torch.Tensor:
        spec = self._specs[name]
        return torch.empty(spec.shape, dtype=getattr(torch, spec.dtype), device=META)

    def read_into(self, name: str, out: torch.Tensor, start: int = 0) -> None:
        return


def pretend_cuda() -> None:
    """Routes are chosen as for CUDA, and what they make on it has no memory."""
    driver.set_active(NoDevice())
    for module in (accept, delta_mixer, linear, moe, paged_attention, partial_rope, rms_norm, round_start, sample):
        module.select = _for_cuda(module.select)  # type: ignore[attr-defined]
    torch.zeros = _without_memory(torch.zeros)


def _for_cuda(select: Callable[..., Any]) -> Callable[..., Any]:
    return lambda device, *arguments: select(CUDA, *arguments)


def _without_memory(make: Callable[..., Any]) -> Callable[..., Any]:
    def made(*arguments: Any, **options: Any) -> Any:
        if options.get("device") == CUDA:
            options["device"] = META
        return make(*arguments, **options)

    return made


def few_layers(handle: ArtifactHandle) -> ArtifactHandle:
    """The first layers alone, of which every kind is one."""

    def layer(name: str) -> int:
        parts = name.split(".")
        return int(parts[parts.index("layers") + 1]) if "layers" in parts else -1

    header = handle.header
    config = {**header.config, "num_hidden_layers": LAYERS}
    if isinstance(kinds := config.get("layer_types"), list):
        config["layer_types"] = kinds[:LAYERS]
    kept = tuple(spec for spec in header.tensors if layer(spec.name) < LAYERS)
    resources = {**header.resources, DRAFT_CONFIG: few_taps(header.resources[DRAFT_CONFIG])}
    header = msgspec.structs.replace(header, config=config, tensors=kept, resources=resources)
    return ArtifactHandle(header=header, notes=(), store=handle.store)


def few_taps(draft_config: bytes) -> bytes:
    """The config of a drafter of as many layers of the target, among those that are kept."""
    config = msgspec.json.decode(draft_config)
    ids = config["dflash_config"]["target_layer_ids"]
    config["num_target_layers"] = LAYERS
    config["dflash_config"]["target_layer_ids"] = [place * (LAYERS - 1) // (len(ids) - 1) for place in range(len(ids))]
    return msgspec.json.encode(config)


@torch.inference_mode()
def main(source: str, kv_dtype: str, weights: str, spec: str | None = None, draft_tokens: str = "3") -> None:
    pretend_cuda()
    registry = PluginRegistry.discover()
    (offer,) = registry.offers("family")
    handle = encoded_artifact(few_layers(open_artifact(source, registry)), registry.load(offer), weights)
    drafts = {} if spec is None else {"spec": spec, "draft_tokens": int(draft_tokens)}
    options = ServeOptions(device=0, max_concurrency=8, kv_dtype=kv_dtype, **drafts)
    plan = resolve(options, registry, handle.header, H200)
    plugins = resolve_pinned(plan, registry)
    model, drafter = build_model(plan, plugins, handle.header, NoWeights(handle.header), META)
    codec = plugins["kv"][0].hook.ninfer_kv_codec(layout=plan.kv_layout)
    program = DeviceProgram(plan, model, codec, allocate_pools(plan, META), META, drafter)
    transfer = program._transfer
    transfer.send = lambda candidates: Unit(lambda: ((0,) * candidates.shape[1],) * candidates.shape[0])  # type: ignore[method-assign]
    transfer.send_checked = lambda packed: Unit(lambda: ((0,),) * packed.shape[0])  # type: ignore[method-assign]
    transfer.token_ids = lambda token_ids: torch.empty(len(token_ids), dtype=torch.int64, device=META)  # type: ignore[method-assign]
    compile_kernels(program, plan)
    shared = [each.metadata.shared for each in gc.get_objects() if isinstance(each, CompiledKernel)]
    sys.stdout.write(f"{len(shared)} {max(shared)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
