"""`ninfer plan`: the execution plan as a table or as JSON, without a GPU and without torch."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.api.request import SamplingOptions
from ninfer_core.cli.options import ServeCommand, serve_options
from ninfer_core.cli.table import table
from ninfer_core.engine.scripted.script import read_script
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.prepare import Prepared, prepare
from ninfer_core.plan.units import format_bytes
from ninfer_core.plugins.registry import PluginRegistry


@click.command(cls=ServeCommand)
@serve_options
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
def plan(options: ServeOptions, as_json: bool) -> None:
    """Show the execution plan, every byte of it, without running it.

    ARTIFACT is a .ninfer file, a Hugging Face directory or dummy:NAME; without it, the embedded tiny model.
    """
    if options.scripted is not None:
        read_script(Path(options.scripted))
    prepared = prepare(options, PluginRegistry.discover())
    click.echo(plan_json(prepared) if as_json else plan_text(prepared))


def plan_json(prepared: Prepared) -> str:
    """`plan`, its `digest`, the `server` settings, `notes` and `reference_operations`. The API key is only said to be
    there."""
    settings = prepared.settings
    server = {name: getattr(settings, name) for name in settings.__struct_fields__}
    server["api_key"] = settings.api_key is not None
    document = {
        "digest": prepared.plan.digest,
        "plan": prepared.plan,
        "server": server,
        "notes": prepared.notes,
        "reference_operations": prepared.reference_operations,
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def plan_text(prepared: Prepared) -> str:
    """The plan for a person to read. Styles are dropped by click where the output is no terminal."""
    plan = prepared.plan
    sections = [
        click.style(f"Plan {plan.digest}", bold=True) + f"  {plan.source}",
        table(None, _facts(prepared)),
        _heading("Memory") + "\n" + _ledger(plan),
        _heading("Features") + "\n" + table(None, _features(plan)),
    ]
    slow = (f"computed by plain torch, slowly: {operation}" for operation in prepared.reference_operations)
    if notes := (*prepared.notes, *slow):
        sections.append(_heading("Notes") + "\n" + "\n".join(notes))
    return "\n\n".join(sections)


def _heading(text: str) -> str:
    return click.style(text, bold=True)


def _facts(prepared: Prepared) -> list[tuple[str, str]]:
    plan, settings = prepared.plan, prepared.settings
    geometry, attention = plan.geometry, plan.geometry.attention
    capacities, device = plan.capacities, plan.device
    capability = f", compute capability {device.compute_capability}" if device.compute_capability else ""
    index = "" if device.index is None else f" {device.index}"
    facts = [
        ("model", f"{plan.identity.model_id}, weights {plan.identity.weights_id}, computes in {plan.activation_dtype}"),
        ("artifact", f"fingerprint {plan.fingerprint[:12]}"),
        (
            "layers",
            f"{geometry.layers}, {attention.layers} of them attention: {attention.query_heads} query and "
            f"{attention.kv_heads} KV heads of {attention.head_dim}",
        ),
        ("device", f"{device.kind}{index}: {device.name}, {format_bytes(device.memory_bytes)}{capability}"),
        ("context", f"{capacities.max_context:,} tokens of {geometry.max_positions:,} positions"),
        (
            "KV",
            f"{capacities.kv_pages:,} pages of {capacities.page_tokens} = "
            f"{capacities.kv_pages * capacities.page_tokens:,} tokens, "
            f"{_cached_layers(plan) * attention.kv_heads * plan.kv_layout.bytes:,} bytes each",
        ),
        (
            "requests",
            f"{capacities.max_concurrency} running, {capacities.max_pending_requests} waiting up to "
            f"{capacities.pending_timeout_ms:,} ms",
        ),
        ("units", f"prefill {capacities.prefill_chunk:,} tokens, {_columns(capacities.draft_tokens)}"),
        ("answers", f"up to {capacities.default_max_tokens:,} tokens where a request names no limit"),
        ("thinking", _thinking(plan)),
        ("prompts", _prompts(plan)),
        *_sampling(plan),
        ("server", _server(prepared)),
        ("model id", settings.model_id),
        ("compat", ", ".join(plan.compat) or "off"),
    ]
    facts.extend((pin.kind, f"{pin.name} ({pin.package} {pin.version})") for pin in plan.pins)
    return facts


def _cached_layers(plan: ExecutionPlan) -> int:
    """Layers with keys and values, those of a drafter included."""
    return plan.geometry.attention.layers + (0 if plan.drafter is None else plan.drafter.needs.kv_layers)


def _columns(draft_tokens: int) -> str:
    return f"decode {1 + draft_tokens} {'columns' if draft_tokens else 'column'} a row"


def _thinking(plan: ExecutionPlan) -> str:
    if not plan.template.thinking_toggle:
        return "the template has no switch for it"
    words = ["on" if plan.thinking.enable_thinking else "off"]
    if plan.template.efforts:
        words.append(f"efforts {', '.join(plan.template.efforts)} (default {plan.template.default_effort})")
    if plan.thinking.thinking_budget is not None:
        words.append(f"closed after {plan.thinking.thinking_budget:,} tokens")
    words.append("earlier reasoning is " + ("kept" if plan.thinking.preserve_thinking else "dropped"))
    return "; ".join(words)


def _prompts(plan: ExecutionPlan) -> str:
    if plan.template.renderer == "structured":
        return "structured renderer, equal to the artifact's template"
    return f"the artifact's template alone: {plan.template.renderer_reason or 'its structure is not known'}"


def _sampling(plan: ExecutionPlan) -> list[tuple[str, str]]:
    if plan.greedy:
        return [("sampling", "greedy, whatever a request asks for")]
    overrides = _settings_text(plan.sampling_overrides)
    rows = [
        ("thinking sampler", _settings_text(plan.presets.thinking)),
        ("plain sampler", _settings_text(plan.presets.non_thinking)),
    ]
    return [*rows, ("overridden by", overrides)] if overrides else rows


def _settings_text(options: SamplingOptions) -> str:
    given = ((name, getattr(options, name)) for name in options.__struct_fields__)
    return ", ".join(f"{name.replace('_', '-')} {value:g}" for name, value in given if value is not None)


def _server(prepared: Prepared) -> str:
    settings = prepared.settings
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    words = [f"http://{host}:{settings.port}", "API key set" if settings.api_key is not None else "no API key"]
    if settings.cors:
        words.append("CORS")
    return ", ".join([*words, f"bodies up to {format_bytes(settings.max_request_bytes)}"])


def _ledger(plan: ExecutionPlan) -> str:
    total = plan.ledger.device_bytes
    rows = [
        (
            line.name,
            f"{line.bytes:>{len(str(total)) + 6},}",
            _share(line.bytes, total),
            format_bytes(line.bytes),
            line.formula,
        )
        for line in plan.ledger.lines
    ]
    planned = plan.ledger.planned_bytes
    rows.append(
        (
            "planned",
            f"{planned:>{len(str(total)) + 6},}",
            _share(planned, total),
            format_bytes(planned),
            "all but the headroom",
        )
    )
    rows.append(
        ("device", f"{total:>{len(str(total)) + 6},}", _share(total, total), format_bytes(total), plan.device.name)
    )
    return table(("LINE", "BYTES".rjust(len(str(total)) + 6), " SHARE", "SIZE", "FORMULA"), rows)


def _share(count: int, total: int) -> str:
    return f"{100 * count / total:5.1f}%"


def _features(plan: ExecutionPlan) -> list[tuple[str, str]]:
    return [(name.replace("_", " "), feature.words) for name, feature in plan.features.items()]
