"""From a plan to a program: pinned plugins, weights, pools, workspace, warm-up."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch

from ninfer_core.api.artifact import ArtifactHeader, WeightSource
from ninfer_core.api.errors import NinferError, PluginBroken, StartFailed
from ninfer_core.api.kv import KVCodec
from ninfer_core.api.model import Model
from ninfer_core.api.plan import DeviceInfo, ExecutionPlan
from ninfer_core.api.request import TOP_K_CAP
from ninfer_core.artifact.finite import count_nonfinite
from ninfer_core.ops.accept import Acceptor
from ninfer_core.ops.workspace.linear_tiles import MOST_ROWS, ROW_CLASSES
from ninfer_core.plan.pins import resolve_pinned
from ninfer_core.plan.units import format_bytes
from ninfer_core.plugins import LoadedPlugin
from ninfer_core.plugins.registry import PluginRegistry
from ninfer_core.plugins.trial import try_codec
from ninfer_core.program.compilation import compiling_only
from ninfer_core.program.contract import OnPhase, RowRound, RowSetup, Sampling
from ninfer_core.program.loading import load_model
from ninfer_core.program.pools import allocate_pools
from ninfer_core.program.runner import DeviceProgram
from ninfer_core.program.workspace import make_workspace

CPU_WARM_UP_TOKENS = 16
"""On the CPU a warm-up only makes the first request's threads and caches; a whole chunk would cost seconds."""

CHECKED_TOKENS = 16
"""Of the prompt whose logits are looked at before a start is called done."""

SMALL_WEIGHTS_BYTES = 256 * 2**20
"""Up to here a model's matrices are too small to be shared between threads. Measured with the embedded model (28 MiB)
on two cores that others were using too: with two threads that sleep while they wait, decode gave 16 to 29 tokens a
second for one row and 18 for eight; with one thread 30 to 44 and 16 to 24. Threads that spin gave under 2. Products
with single matrices gained nothing from the second thread up to 2048 x 2048."""


MEMORY_TOLERANCE = 0.02
"""Share by which a device's memory may differ between CUDA and the management library that plans are made with: they
count differently what the driver keeps for itself."""


class ModelNotFinite(StartFailed):
    """The model that was built gives logits that are no numbers."""

    code = "model_not_finite"

    def __init__(self, *, nonfinite: int, logits: int) -> None:
        super().__init__(
            f"{nonfinite} of {logits} logits of a first prompt are NaN or infinite, so that every answer would be one "
            "character over and over; weights or their scales are too large for the arithmetic: convert them again "
            "from their checkpoint"
        )


def device_of(plan: ExecutionPlan) -> torch.device:
    """The device that the plan is for. Raises StartFailed when this machine does not have it, or has another one under
    its number."""
    if plan.device.kind == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise StartFailed(
            f"the plan is for {plan.device.name}, and torch finds no CUDA device here; "
            "plan with --device cpu, or install a CUDA build of torch"
        )
    index, count = plan.device.index or 0, torch.cuda.device_count()
    if index >= count:
        raise StartFailed(f"the plan is for CUDA device {index} ({plan.device.name}), and torch finds {count}")
    properties = torch.cuda.get_device_properties(index)
    _check_device(plan.device, properties.name, properties.total_memory)
    return torch.device("cuda", index)


def _check_device(planned: DeviceInfo, name: str, memory_bytes: int) -> None:
    """Hold what torch finds at the plan's index to the plan: a wrong order of devices is noticed before it costs."""
    close = abs(memory_bytes - planned.memory_bytes) <= MEMORY_TOLERANCE * planned.memory_bytes
    if name == planned.name and close:
        return
    raise StartFailed(
        f"the plan is for {planned.name} with {format_bytes(planned.memory_bytes)} as CUDA device {planned.index}, and "
        f"torch finds {name} with {format_bytes(memory_bytes)} there; number devices by bus (CUDA_DEVICE_ORDER="
        "PCI_BUS_ID), choose another --device, or plan without --assume-device-memory"
    )


def settle_threads(plan: ExecutionPlan, device: torch.device, environment: Mapping[str, str] = os.environ) -> None:
    """One thread for a small model on the CPU, unless OMP_NUM_THREADS says how many. Holds for this thread and for
    those that first use torch later."""
    small = plan.ledger.line("weights").bytes <= SMALL_WEIGHTS_BYTES
    if device.type == "cpu" and small and "OMP_NUM_THREADS" not in environment:
        torch.set_num_threads(1)


def settle_device(device: torch.device) -> None:
    """Kernels are launched, and units timed, on the device that is current for the thread, which is the first one until
    something else is said. Holds for this thread, on which the program is to be used as well."""
    if device.type == "cuda":
        torch.cuda.set_device(device)


@torch.inference_mode()
def build_program(
    plan: ExecutionPlan,
    header: ArtifactHeader,
    weights: WeightSource,
    registry: PluginRegistry,
    device: torch.device,
    on_phase: OnPhase,
    wrap_model: Callable[[Model], Model] | None = None,
    acceptor: Acceptor | None = None,
) -> DeviceProgram:
    """A program that is ready to run; `wrap_model` may put something between it and its model, and `acceptor` say
    which drafts are kept, where else the model's law does. Raises the StartupErrors of the plugins, ArtifactInvalid
    for weights that are no numbers, ModelNotFinite for logits that are none, and StartFailed when the device does not
    have the memory that the plan counts on."""
    settle_threads(plan, device)
    settle_device(device)
    plugins = resolve_pinned(plan, registry)
    (kv,) = plugins["kv"]
    with _phase("weights", on_phase):
        model, drafter = load_model(plan, plugins, header, weights, device)
        model = model if wrap_model is None else wrap_model(model)
    with _phase("pools", on_phase):
        codec = _tried_codec(kv, plan, device)
        pools = allocate_pools(plan, device)
        program = DeviceProgram(plan, model, codec, pools, device, drafter, acceptor)
    if device.type == "cuda" and plan.kernels == "auto":
        with _phase("kernels", on_phase), remedied("kernels do not compile", "--kernels reference runs without them"):
            compile_kernels(program, plan)
    with _phase("warm-up", on_phase):
        _warm_up(program, plan, device)
        _check_logits(program, plan)
    if plan.features.cuda_graphs.on:
        with (
            _phase("graphs", on_phase),
            remedied("decode rounds cannot be captured", "--no-cuda-graph launches them one by one"),
        ):
            program.capture()
    # Taken last: what compiling, loading and capturing needed on the way has gone back to the driver by then.
    program.watch(make_workspace(plan.ledger.line("workspace").bytes, device))
    return program


def _tried_codec(kv: LoadedPlugin, plan: ExecutionPlan, device: torch.device) -> KVCodec:
    codec: KVCodec = kv.hook.ninfer_kv_codec(layout=plan.kv_layout)
    dtype = getattr(torch, plan.activation_dtype)
    try_codec(kv, codec, plan.kv_layout, plan.geometry.attention.head_dim, dtype, device)
    return codec


def compile_kernels(program: DeviceProgram, plan: ExecutionPlan) -> None:
    """Compile what prompts of any length and rounds of any size launch."""
    with compiling_only():
        for tokens in prompt_lengths():
            if tokens < min(plan.capacities.prefill_chunk, plan.capacities.max_context):
                _run_alone(program, tokens)
        _warm_up(program, plan, torch.device("cuda"))


def _check_logits(program: DeviceProgram, plan: ExecutionPlan) -> None:
    """Weights that are numbers may still be too large for the arithmetic: every answer would be one character over and
    over."""
    tokens = min(CHECKED_TOKENS, plan.capacities.prefill_chunk, plan.capacities.max_context - 1)
    row = program.open_row(RowSetup(tokens, tokens, _WARM_UP_SAMPLING))
    assert row is not None, "a row does not fit where nothing else is"
    logits = program.prompt_logits(row, [token % plan.token_domain for token in range(tokens)])
    program.close_row(row)
    if nonfinite := count_nonfinite(logits):
        raise ModelNotFinite(nonfinite=nonfinite, logits=logits.numel())


def _run_alone(program: DeviceProgram, tokens: int) -> None:
    row = program.open_row(RowSetup(tokens, tokens, _WARM_UP_SAMPLING))
    assert row is not None, "a row does not fit where nothing else is"
    program.prefill(row, [0] * tokens, last=True)
    program.close_row(row)


def prompt_lengths() -> list[int]:
    """Both sides of where matrix products change their way, and between and beyond them odd ones and multiples of
    16."""
    turns = {*ROW_CLASSES, *MOST_ROWS.values()}
    return sorted({1, 2, 7, 48, 100, 112, 256, 300, 304, *turns, *(turn + 1 for turn in turns)})


def _warm_up(program: DeviceProgram, plan: ExecutionPlan, device: torch.device) -> None:
    """Run one prompt of the largest chunk and a round of every batch size, so that no request is the first to load a
    kernel; on the CPU, a short prompt and one round."""
    capacities = plan.capacities
    on_cpu = device.type == "cpu"
    rounds = 1 if on_cpu else capacities.max_concurrency
    chunk = min(capacities.prefill_chunk, CPU_WARM_UP_TOKENS) if on_cpu else capacities.prefill_chunk
    longest = min(chunk, capacities.max_context - rounds)
    rows: list[int] = []
    for prompt in (longest, *(1 for _ in range(rounds - 1))):
        row = program.open_row(RowSetup(prompt, prompt + rounds, _WARM_UP_SAMPLING)) if prompt > 0 else None
        if row is None:
            break
        program.prefill(row, [0] * prompt, last=True)
        rows.append(row)
        program.decode([RowRound(row=row, accepted=1) for row in rows])
    for row in rows:
        program.close_row(row)


_WARM_UP_SAMPLING = Sampling(
    temperature=1.0, top_p=0.95, top_k=TOP_K_CAP, min_p=0.0, presence_penalty=0.0, frequency_penalty=0.0, seed=0
)


@contextmanager
def remedied(problem: str, remedy: str) -> Iterator[None]:
    """What fails in here that is neither ours nor a lack of memory, such as a plugin's kernel or a library of this
    machine, ends the start with a way out."""
    try:
        yield
    except (NinferError, AssertionError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        raise StartFailed(f"{problem} ({type(error).__name__}: {error}); {remedy}") from error


@contextmanager
def _phase(name: str, on_phase: OnPhase) -> Iterator[None]:
    begin = time.monotonic()
    try:
        yield
    except (torch.OutOfMemoryError, PluginBroken) as error:
        # What memory a plugin asks for in vain, as for the weights, is no fault of its own.
        if not isinstance(error, torch.OutOfMemoryError) and not isinstance(error.__cause__, torch.OutOfMemoryError):
            raise
        raise StartFailed(
            f"the device ran out of memory during '{name}' although the plan fits it: {error}; "
            "another process may hold some of it"
        ) from error
    on_phase(name, time.monotonic() - begin)
