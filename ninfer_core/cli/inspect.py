"""`ninfer inspect`: what is in an artifact, without loading it."""

from __future__ import annotations

import click
import msgspec

from ninfer_core.api.geometry import Geometry
from ninfer_core.artifact.report import ArtifactReport, report_artifact
from ninfer_core.artifact.wording import quoted
from ninfer_core.cli.table import table
from ninfer_core.plugins import PluginRegistry

INVALID = 1
"""Exit code for an artifact that cannot be used."""


@click.command()
@click.argument("artifact", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option("--tensors", is_flag=True, help="Every tensor too, in the order of the file.")
def inspect(artifact: str | None, as_json: bool, tensors: bool) -> int:
    """Identity, geometry, groups, frontend resources and problems of ARTIFACT (none: the embedded model).

    ARTIFACT is a .ninfer file, a Hugging Face directory or dummy:NAME. Exit code 1 when it cannot be used.
    """
    report = report_artifact(artifact, PluginRegistry.discover())
    if as_json:
        members = {**msgspec.to_builtins(report), "valid": report.valid}
        if not tensors:
            del members["tensors"]
        click.echo(msgspec.json.format(msgspec.json.encode(members), indent=2))
    else:
        click.echo("\n\n".join(_sections(report, tensors)))
    return 0 if report.valid else INVALID


def _sections(report: ArtifactReport, tensors: bool) -> list[str]:
    sections = [_identity(report)]
    if report.groups:
        groups = [
            (part.group, str(part.tensors), f"{part.bytes:,}", _dtypes(part.bytes_by_dtype)) for part in report.groups
        ]
        sections.append(table(("GROUP", "TENSORS", "BYTES", "DTYPES"), groups))
    if report.forms:
        forms = [
            (part.form, str(part.tensors), f"{part.weights:,}", f"{part.bytes:,}", f"{part.bits_per_weight:.3f}")
            for part in report.forms
        ]
        sections.append(table(("FORM", "TENSORS", "WEIGHTS", "BYTES", "BITS"), forms))
    if report.resources:
        resources = [(part.name, f"{part.bytes:,}", part.sha256) for part in report.resources]
        sections.append(table(("RESOURCE", "BYTES", "SHA256"), resources))
    if tensors and report.tensors:
        lines = [
            (_printable(line.name), line.group, line.dtype, str(list(line.shape)), f"{line.bytes:,}")
            for line in report.tensors
        ]
        sections.append(table(("TENSOR", "GROUP", "DTYPE", "SHAPE", "BYTES"), lines))
    if report.notes:
        sections.append("\n".join(f"note: {note}" for note in report.notes))
    if report.problems:
        sections.append("\n".join(f"problem: {problem}" for problem in report.problems))
    return sections


def _identity(report: ArtifactReport) -> str:
    fields = [("artifact", report.source)]
    if report.identity is not None:
        version = report.identity.format_version
        fields += [
            ("model id", _printable(report.identity.model_id)),
            ("weights", _printable(report.identity.weights_id)),
            ("family", ", ".join(report.families) or _printable(report.identity.family) or "-"),
            ("format", f"version {version}" if version else "not a container"),
            ("bytes", f"{sum(group.bytes for group in report.groups):,} of weights"),
        ]
    if report.geometry is not None:
        fields += _geometry(report.geometry)
    fields.append(("state", "valid" if report.valid else _refusal(len(report.problems))))
    return table(None, fields)


def _geometry(geometry: Geometry) -> list[tuple[str, str]]:
    attention = geometry.attention
    heads = f"{attention.query_heads} query and {attention.kv_heads} kv heads of {attention.head_dim}"
    return [
        ("layers", f"{geometry.layers}, {attention.layers} of them attention ({heads})"),
        ("hidden size", str(geometry.hidden_size)),
        ("vocabulary", f"{geometry.vocabulary_rows} rows"),
        ("positions", str(geometry.max_positions)),
        ("state", f"{geometry.state_bytes + geometry.kept_bytes:,} bytes a sequence"),
    ]


def _dtypes(bytes_by_dtype: dict[str, int]) -> str:
    largest_first = sorted(bytes_by_dtype, key=lambda dtype: -bytes_by_dtype[dtype])
    return ", ".join(largest_first)


def _printable(text: str) -> str:
    """As it is, or escaped when printing it could do something to a terminal."""
    return text if text.isprintable() else quoted(text)


def _refusal(problems: int) -> str:
    return f"cannot be used: {problems} problem{'' if problems == 1 else 's'}"
