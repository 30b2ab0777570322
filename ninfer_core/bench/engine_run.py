"""`ninfer bench engine`: times of a plan's rounds and prefills, and the checks that let them be written."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
import torch

from ninfer_core.api.frontend import OutputVocabulary
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.bench.accelerator import card_of, give_back, peak_bytes, watch_peak
from ninfer_core.bench.cases import Measured, check_room, measure_cases
from ninfer_core.bench.code import code_of
from ninfer_core.bench.driver import CONTEXT_PROMPT_TOKENS, Driver
from ninfer_core.bench.floor import Floor
from ninfer_core.bench.host_share import exposed_share
from ninfer_core.bench.invariance import Mixes, check_invariance
from ninfer_core.bench.layers import check_layers, gather_layers, reference_noise
from ninfer_core.bench.machine import machine_of
from ninfer_core.bench.probes import Evidence, Probe, compare, gather
from ninfer_core.bench.profile import profile_rounds
from ninfer_core.bench.records import Check, EngineCases, Figure, Profile, Roof, Run
from ninfer_core.bench.roof import measure_roof
from ninfer_core.bench.subject import Subject, floor_of, started
from ninfer_core.bench.tolerances import tolerance
from ninfer_core.bench.wording import check_line, figure_line
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.prepare import Prepared, prepare
from ninfer_core.plan.units import format_bytes
from ninfer_core.plugins.registry import PluginRegistry
from ninfer_core.program.build import device_of
from ninfer_core.program.start import settle_environment

Gathered = Sequence[tuple[Probe, Evidence]]


@dataclass(frozen=True, slots=True)
class _Found:
    """All that the program under test was asked."""

    figures: list[Figure]
    checks: list[Check]
    profiles: tuple[Profile, ...]
    remarks: list[str]
    peak_bytes: int | None
    gathered: Gathered
    streams: list[torch.Tensor]
    start_seconds: dict[str, float]


def bench_engine(
    options: ServeOptions, cases: EngineCases, registry: PluginRegistry, say: Callable[[str], None]
) -> Run:
    """One run of the program as planned, and one of the reference on the same weights. Raises StartupErrors, also
    where the plan has no room for any of the cases."""
    begin = time.monotonic()
    prepared = prepare(options, registry)
    plan = prepared.plan
    check_room(plan.capacities, cases)
    settle_environment(plan.device.kind)
    device, code = device_of(plan), code_of(registry)
    say(f"plan {plan.digest}  code {code.digest}  {plan.identity.model_id}  {plan.device.name}")
    roof = measure_roof(device) if cases.roof else None
    found = _measured(options, cases, registry, prepared, roof, say)
    give_back()
    say(f"measured, asked and profiled by {time.monotonic() - begin:.1f} s")
    checks = [*found.checks, *_compared(options, registry, found.gathered, found.streams)]
    say(f"compared by {time.monotonic() - begin:.1f} s")
    for check in checks:
        say(check_line(check))
    return Run(
        kind="engine",
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        digest=plan.digest,
        model=plan.identity.model_id,
        machine=machine_of(plan, card_of(device)),
        figures=tuple(found.figures),
        checks=tuple(checks),
        roof=roof,
        start_seconds=found.start_seconds,
        profiles=found.profiles,
        remarks=(*REMARKS, *found.remarks),
        plan=plan,
        code=code.digest,
        commit=code.commit,
        cases=cases,
        peak_bytes=found.peak_bytes,
    )


def _measured(
    options: ServeOptions,
    cases: EngineCases,
    registry: PluginRegistry,
    prepared: Prepared,
    roof: Roof | None,
    say: Callable[[str], None],
) -> _Found:
    """Start the program, ask it all, and end it: nothing holds it when this returns."""
    watch_peak(device_of(prepared.plan))
    with started(options, registry) as subject:
        say("start  " + "  ".join(f"{name} {seconds:.2f} s" for name, seconds in subject.start_seconds.items()))
        found = _ask(subject, cases, floor_of(prepared, registry), roof, prepared, say)
    if found.peak_bytes is not None:
        say(f"memory {format_bytes(found.peak_bytes)} at most")
    return found


def _ask(
    subject: Subject,
    cases: EngineCases,
    floor: Floor,
    roof: Roof | None,
    prepared: Prepared,
    say: Callable[[str], None],
) -> _Found:
    driver, plan = Driver(subject), subject.plan
    weights = plan.identity.weights_id
    measured = measure_cases(subject, driver, cases, floor, roof, weights, lambda figure: say(figure_line(figure)))
    gathered = [(probe, gather(driver, subject, probe)) for probe in measured.probes]
    return _Found(
        gathered=gathered,
        streams=gather_layers(driver, subject, gathered[0][0]) if gathered else [],
        checks=_own_checks(driver, plan, cases),
        profiles=_profiles(driver, plan, cases),
        figures=_with_host_share(subject, driver, cases, measured, prepared.resolution.frontend),
        remarks=measured.remarks,
        peak_bytes=peak_bytes(subject.device),
        start_seconds=dict(subject.start_seconds),
    )


def reference_options(options: ServeOptions) -> ServeOptions:
    """The plan of the reference: it answers one row at a time, without drafts, in chunks of which its temporaries are
    small."""
    return msgspec.structs.replace(
        options,
        spec=None,
        draft_tokens=None,
        lm_head_draft=False,
        kernels="reference",
        no_cuda_graph=True,
        max_concurrency=1,
        kv_capacity=options.max_context,
        prefill_chunk=min(options.prefill_chunk, REFERENCE_CHUNK_TOKENS),
    )


REFERENCE_CHUNK_TOKENS = 1024

REMARKS = (
    f"Keys and values of contexts beyond {CONTEXT_PROMPT_TOKENS} tokens are random numbers, written into the pages "
    "without a prompt; attention reads them all the same.",
    "A step is the time from one result to the next, host work included.",
)


def _own_checks(driver: Driver, plan: ExecutionPlan, cases: EngineCases) -> list[Check]:
    """Those that need no reference."""
    if not cases.mixes:
        return []
    return [
        check_invariance(driver, plan.capacities.max_concurrency, Mixes(cases.mixes), plan.capacities.prefill_chunk)
    ]


def _profiles(driver: Driver, plan: ExecutionPlan, cases: EngineCases) -> tuple[Profile, ...]:
    if not cases.profiled or plan.device.kind != "cuda":
        return ()
    return tuple(
        profile_rounds(driver, rows, context)
        for context in sorted({min(cases.context_tokens), max(cases.context_tokens)})
        for rows in sorted({min(cases.batches), max(cases.batches)})
        if driver.fits(rows, context + CONTEXT_PROMPT_TOKENS)
    )


def _with_host_share(
    subject: Subject, driver: Driver, cases: EngineCases, measured: Measured, vocabulary: OutputVocabulary
) -> list[Figure]:
    """The figures, the share in those of the largest batch over the shortest context. Ends the program."""
    if not cases.host_tokens or not measured.figures:
        return measured.figures
    rows, context = max(cases.batches), min(cases.context_tokens)
    prompts = [driver.prompt(number, context) for number in range(rows)]
    share = exposed_share(subject.plan, subject.program, vocabulary, prompts, cases.host_tokens)
    return [
        msgspec.structs.replace(figure, host_share=share)
        if (figure.case, figure.rows, figure.context_tokens) == ("decode", rows, context)
        else figure
        for figure in measured.figures
    ]


def _compared(
    options: ServeOptions, registry: PluginRegistry, gathered: Gathered, streams: list[torch.Tensor]
) -> list[Check]:
    """The probes' evidence and the `streams` of the first one against the reference, which is started for it."""
    if not gathered:
        return []
    with started(reference_options(options), registry) as reference:
        driver, first = Driver(reference), gathered[0][0]
        allowed = tolerance(reference.plan.activation_dtype, reference.plan.identity.weights_id)
        layers = check_layers(driver, reference, first, streams, allowed.layer_error)
        noise = reference_noise(driver, reference, first)
        limit = allowed.logit_error(noise)
        compared = [compare(driver, reference, probe, evidence, limit) for probe, evidence in gathered]
    return [
        layers,
        *(msgspec.structs.replace(check, values={**check.values, "reference_noise": noise}) for check in compared),
    ]
