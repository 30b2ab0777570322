"""`ninfer serve`: from options to a running server."""

from __future__ import annotations

from pathlib import Path

import click

from ninfer_core.cli.options import ServeCommand, serve_options
from ninfer_core.engine.scripted.script import read_script
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.pins import resolve_pinned
from ninfer_core.plan.prepare import Prepared, prepare
from ninfer_core.plan.units import format_bytes
from ninfer_core.plugins.registry import PluginRegistry
from ninfer_core.telemetry import Log, create_log


@click.command(cls=ServeCommand)
@serve_options
def serve(options: ServeOptions) -> None:
    """Serve an artifact over HTTP.

    ARTIFACT is a .ninfer file, a Hugging Face directory or dummy:NAME; without it, the embedded tiny model.
    SIGTERM and Ctrl-C let running requests finish for a while; a second one ends at once.
    """
    serve_until_signal(options)


def serve_until_signal(options: ServeOptions) -> None:
    """What the command does. Raises StartupErrors."""
    # Here, so that `--help` does not pay for a web framework.
    from ninfer_core.serving.lifecycle import PhaseClock, run_server
    from ninfer_core.serving.process_link import ProcessLink
    from ninfer_core.serving.protocols import build_protocols
    from ninfer_core.serving.sampling import ScriptedSampling

    script = None if options.scripted is None else read_script(Path(options.scripted))
    log = create_log(options.log_level)
    clock = PhaseClock(log)
    registry = PluginRegistry.discover()
    with clock.phase("plan"):
        prepared = prepare(options, registry)
        protocols = resolve_pinned(prepared.plan, registry, ("protocol",))["protocol"]
    if script is not None:
        log.warning("scripted", file=options.scripted, answers=len(script.answers))
    log_plan(log, prepared)
    run_server(
        prepared.plan,
        prepared.settings,
        frontend=prepared.resolution.frontend,
        link=ProcessLink(
            prepared.plan,
            prepared.artifact.header.source,
            log=log,
            log_level=options.log_level,
            stats_interval_ms=prepared.settings.log_stats_interval_ms,
            script=script,
        ),
        protocols=lambda context: build_protocols(protocols, context),
        clock=clock,
        log=log,
        sampling=None if script is None else ScriptedSampling(prepared.plan, script),
    )


def log_plan(log: Log, prepared: Prepared) -> None:
    """What a user should know, and what was decided, for someone who looks closer (contract OLOG-2)."""
    plan = prepared.plan
    for note in prepared.notes:
        log.info("note", text=note)
    for operation in prepared.reference_operations:
        log.warning("reference_operation", text=operation)
    for pin in plan.pins:
        log.debug("plan_plugin", kind=pin.kind, name=pin.name, package=pin.package, version=pin.version)
    for line in plan.ledger.lines:
        log.debug("plan_memory", line=line.name, size=format_bytes(line.bytes), formula=line.formula)
    log.debug("plan_features", **{name: feature.words for name, feature in plan.features.items()})
