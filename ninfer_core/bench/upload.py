"""`ninfer bench upload`: how fast the weights of a file reach their device, beside what the disk and the way to the
device could do."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import torch

from ninfer_core.api.errors import StartFailed
from ninfer_core.artifact import ArtifactHandle
from ninfer_core.artifact.encoding import EncodingStore
from ninfer_core.artifact.handle import FileStore
from ninfer_core.artifact.read_ahead import PIECE_BYTES, THREADS
from ninfer_core.artifact.safetensors_file import StoredTensor
from ninfer_core.bench.accelerator import card_of
from ninfer_core.bench.code import code_of
from ninfer_core.bench.machine import machine_of
from ninfer_core.bench.records import Check, Figure, Run
from ninfer_core.bench.roof import median_seconds
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.prepare import Prepared, prepare
from ninfer_core.plan.sizing import build_shape
from ninfer_core.plugins.registry import PluginRegistry
from ninfer_core.program.build import device_of
from ninfer_core.program.workspace import weights_for

COPY_BYTES = {"cuda": 256 << 20, "cpu": 16 << 20}
CHECKED_BYTES = 1 << 20
"""Of the beginning of every tensor that is checked."""
CHECKED_TENSORS = 16
CHECK = "content"


def bench_upload(options: ServeOptions, registry: PluginRegistry, say: Callable[[str], None]) -> Run:
    """Load the weights as a start does, with the file out of the system's cache and in it. Raises StartupErrors, and
    StartFailed for an artifact that is no file."""
    prepared = prepare(options, registry)
    plan, tensors = prepared.plan, _stored(prepared)
    device, code = device_of(plan), code_of(registry)
    size = sum(tensor.spec.bytes for tensor in tensors)
    way = _way_bytes_per_second(device)
    say(f"{size / 1e9:.2f} GB of weights; host to device {way / 1e9:.1f} GB/s")
    figures = []
    for name, prepare_cache in (("cold", _forget), ("cached", _remember)):
        prepare_cache(tensors)
        disk = size / _read_seconds(tensors)
        prepare_cache(tensors)
        seconds = _load_seconds(prepared, device)
        floor = size / min(disk, way)
        figures.append(_figure(f"upload {name}", seconds, floor))
        say(
            f"upload {name}: {size / seconds / 1e9:.2f} GB/s; the file alone is read at {disk / 1e9:.2f} GB/s; "
            f"{100 * floor / seconds:.0f} % of the slower"
        )
    return Run(
        kind="upload",
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        digest=plan.digest,
        model=plan.identity.model_id,
        machine=machine_of(plan, card_of(device)),
        figures=tuple(figures),
        checks=(_content(prepared.artifact, tensors, device),),
        plan=plan,
        code=code.digest,
        commit=code.commit,
    )


def _figure(case: str, seconds: float, floor_seconds: float) -> Figure:
    return Figure(
        case=case,
        check=CHECK,
        seconds=seconds,
        slow_seconds=seconds,
        samples=1,
        tokens=0,
        floor_seconds=floor_seconds,
    )


def _stored(prepared: Prepared) -> list[StoredTensor]:
    """What the text model reads of the artifact, where it lies."""
    artifact = prepared.artifact
    store = artifact.store.store if isinstance(artifact.store, EncodingStore) else artifact.store
    if not isinstance(store, FileStore):
        raise StartFailed(f"{artifact.header.source} has no file whose reading could be measured")
    inventory = prepared.resolution.family.hook.ninfer_family_inventory(header=artifact.header)
    text = {spec.name for spec in inventory if spec.group == "text"}
    return [tensor for name, tensor in store.tensors.items() if name in text]


def _way_bytes_per_second(device: torch.device) -> float:
    size = COPY_BYTES[device.type]
    host = torch.empty(size, dtype=torch.uint8, pin_memory=device.type == "cuda")
    target = torch.empty(size, dtype=torch.uint8, device=device)
    return size / median_seconds(partial(target.copy_, host, non_blocking=True), device)


def _forget(tensors: Sequence[StoredTensor]) -> None:
    """Take the files out of the system's cache, where the system lets a user do that."""
    for path in _paths(tensors):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def _remember(tensors: Sequence[StoredTensor]) -> None:
    _read_seconds(tensors)


def _paths(tensors: Sequence[StoredTensor]) -> list[Path]:
    return sorted({tensor.path for tensor in tensors})


def _read_seconds(tensors: Sequence[StoredTensor]) -> float:
    """All bytes into memory and nowhere else, by as many threads as a start has."""
    ranges = [
        (tensor.path, tensor.begin + start, min(PIECE_BYTES, tensor.spec.bytes - start))
        for tensor in tensors
        for start in range(0, tensor.spec.bytes, PIECE_BYTES)
    ]
    work, lock = iter(ranges), threading.Lock()

    def read() -> None:
        buffer = memoryview(bytearray(PIECE_BYTES))
        while True:
            with lock:
                place = next(work, None)
            if place is None:
                return
            path, begin, size = place
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.preadv(descriptor, [buffer[:size]], begin)
            finally:
                os.close(descriptor)

    threads = [threading.Thread(target=read, name=f"ninfer-bench-read-{number}") for number in range(THREADS)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - begin


@torch.inference_mode()
def _load_seconds(prepared: Prepared, device: torch.device) -> float:
    """A family's build, which is nothing but the loading of weights, from an idle device to an idle device."""
    plan, header = prepared.plan, prepared.artifact.header
    family = prepared.resolution.family
    _settle(device)
    begin = time.perf_counter()
    with prepared.artifact.open_weights() as weights:
        model = family.hook.ninfer_family_build(
            header=header,
            shape=build_shape(plan.capacities, plan.activation_dtype, plan.kernels),
            weights=weights_for(device, weights),
            device=device,
        )
    _settle(device)
    seconds = time.perf_counter() - begin
    del model
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return seconds


def _settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _content(artifact: ArtifactHandle, tensors: Sequence[StoredTensor], device: torch.device) -> Check:
    """Tensors in the order of the file, read as a start reads them, against the bytes of the file."""
    store = FileStore(artifact.header.source, {tensor.spec.name: tensor for tensor in tensors})
    chosen = [tensor for tensor in tensors if tensor.spec.bytes][:: max(1, len(tensors) // CHECKED_TENSORS)]
    wrong = 0
    with store.open_weights() as weights:
        weights.expect([tensor.spec.name for tensor in chosen])
        for tensor in chosen:
            read = weights.read(tensor.spec.name, device).reshape(-1).view(torch.uint8)[:CHECKED_BYTES].cpu()
            with tensor.path.open("rb") as file:
                file.seek(tensor.begin)
                expected = file.read(len(read))
            wrong += bytes(read.tolist()) != expected
    return Check(name=CHECK, passed=not wrong, values={"error": float(wrong)}, limits={"error": 0.0})
