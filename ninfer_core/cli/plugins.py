"""`ninfer plugins`: list from metadata alone; show and check look closer."""

from __future__ import annotations

import click
import msgspec

from ninfer_core.api.errors import PluginUnknown
from ninfer_core.api.manifest import KINDS
from ninfer_core.api.plan import DeviceInfo
from ninfer_core.cli.table import table
from ninfer_core.plan.device import cpu_device, probe_gpus
from ninfer_core.plugins.checking import CheckResult, check_offer
from ninfer_core.plugins.listing import PluginLine, list_plugins
from ninfer_core.plugins.offer import standing
from ninfer_core.plugins.registry import OPTION_BY_KIND, PluginRegistry


@click.group()
def plugins() -> None:
    """List, show and check plugins."""


@plugins.command("list")
@click.option("--kind", type=click.Choice(KINDS), help="Only plugins of this kind.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array, one object for each plugin.")
@click.option("--check", is_flag=True, help="Import every plugin and let it check itself.")
def list_command(kind: str | None, as_json: bool, check: bool) -> None:
    """What is installed, what state it is in, and what is not built yet. Imports no plugin unless --check."""
    registry = PluginRegistry.discover()
    devices = _devices()
    lines = list_plugins(registry, kind, _kinds(devices))
    if check:
        lines = _checked(lines, [check_offer(registry, offer, devices) for offer in registry.offers(kind)])
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(lines), indent=2))
        return
    header = ("KIND", "NAME", "STATE", "PACKAGE", "VERSION", "SUMMARY")
    rows = [(line.kind, line.name, line.state, line.package, line.version or "-", line.remark) for line in lines]
    click.echo(table(header, rows))


@plugins.command("show")
@click.argument("reference", metavar="KIND:NAME[@PACKAGE]")
def show_command(reference: str) -> None:
    """The manifest of one plugin, and the hooks it implements. Imports it."""
    registry = PluginRegistry.discover()
    kind, selection = _split(reference)
    offer = registry.select(kind, selection)
    manifest = offer.manifest
    assert manifest is not None
    state = standing(offer, _kinds(_devices()))
    loaded = registry.load(offer)
    fields = [
        ("plugin", f"{offer.kind}:{offer.reference}"),
        ("version", offer.version),
        ("summary", manifest.summary),
        ("state", f"{state.state}: {state.reason}" if state.reason else state.state),
        ("select with", f"{OPTION_BY_KIND[offer.kind]} {offer.name}"),
        ("module", offer.target),
        ("plugin API", str(manifest.api)),
        *((name, ", ".join(getattr(manifest, name)) or "-") for name in ("provides", "requires", "conflicts")),
        ("modules", ", ".join(manifest.modules) or "-"),
        ("devices", ", ".join(manifest.devices) or "cpu, cuda"),
        ("hooks", ", ".join(loaded.hooks()) or "-"),
        ("missing hooks", ", ".join(loaded.missing_hooks()) or "-"),
    ]
    click.echo(table(None, fields))


@plugins.command("check")
@click.argument("reference", metavar="[KIND:NAME[@PACKAGE]]", required=False)
@click.pass_context
def check_command(context: click.Context, reference: str | None) -> None:
    """Import a plugin, or all of them, and run its own check. Exit code 1 when anything is found."""
    registry = PluginRegistry.discover()
    offers = registry.offers() if reference is None else (registry.find(*_split(reference)),)
    devices = _devices()
    results = [check_offer(registry, offer, devices) for offer in offers]
    for result in results:
        click.echo(f"{result.offer.kind}:{result.offer.reference} {result.offer.version}  {result.word}")
        for finding in result.findings:
            click.echo(f"  - {finding}")
    context.exit(1 if any(result.findings for result in results) else 0)


def _split(reference: str) -> tuple[str, str]:
    kind, colon, selection = reference.partition(":")
    if not colon or not selection:
        raise PluginUnknown(f"'{reference}' is no plugin reference; write KIND:NAME, such as kv:bf16")
    return kind, selection


def _checked(lines: tuple[PluginLine, ...], results: list[CheckResult]) -> tuple[PluginLine, ...]:
    by_offer = {(result.offer.kind, result.offer.name, result.offer.package): result for result in results}
    changed = []
    for line in lines:
        result = by_offer.get((line.kind, line.name, line.package))
        if result is not None and line.state != "blocked" and result.findings:
            line = msgspec.structs.replace(line, state=result.word, reason=result.findings[0])
        changed.append(line)
    return tuple(changed)


def _devices() -> tuple[DeviceInfo, ...]:
    return (*probe_gpus().devices, cpu_device())


def _kinds(devices: tuple[DeviceInfo, ...]) -> frozenset[str]:
    return frozenset(device.kind for device in devices)
