"""Whose a draft checkpoint is, when several backends are asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from ninfer_core.api import ArtifactHeader, ArtifactIdentity, AttentionGeometry, Geometry
from ninfer_core.plugins import DrafterClaims, PluginRegistry, claiming_drafters
from ninfer_core.testing.plugins import entry_points_in, write_plugin_package

BACKEND = """
from ninfer_core.api import ArtifactInvalid, PluginIncompatible, TensorSpec, hookimpl

@hookimpl
def ninfer_spec_inventory(header, geometry):
    {body}
"""
WITHOUT = "from ninfer_core.api import hookimpl\n\n@hookimpl\ndef ninfer_spec_draft_tokens(header): ...\n"
TENSORS = "(TensorSpec(name='draft.fc', shape=(geometry.hidden_size,), dtype='bfloat16', group='draft'),)"
HEADER = ArtifactHeader(
    source="m.ninfer",
    identity=ArtifactIdentity(model_id="m", weights_id="bf16", family="f", format_version=1),
    config={},
    resources={},
    tensors=(),
)
GEOMETRY = Geometry(
    hidden_size=7,
    layers=1,
    vocabulary_rows=9,
    max_positions=9,
    attention=AttentionGeometry(layers=1, query_heads=1, kv_heads=1, head_dim=32),
    state=(),
    records=(),
)


def asked(folder: Path, monkeypatch: pytest.MonkeyPatch, **bodies: str) -> DrafterClaims:
    monkeypatch.syspath_prepend(str(folder))
    sources = {f"spec:{name}": BACKEND.format(body=body) for name, body in bodies.items()}
    write_plugin_package(folder, folder.name.replace("_", "-"), {**sources, "spec:head": WITHOUT})
    return claiming_drafters(PluginRegistry.discover(entry_points_in(folder), {}), HEADER, GEOMETRY)


def test_all_that_read_checkpoints_are_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = asked(
        tmp_path,
        monkeypatch,
        mine=f"return {TENSORS}",
        other="return None",
        too=f"return {TENSORS}",
        wrong="raise PluginIncompatible('a tap too far')",
    )
    assert [claim.plugin.offer.name for claim in found.claims] == ["mine", "too"]
    assert [(spec.name, spec.shape) for spec in found.claims[0].inventory] == [("draft.fc", (7,))]
    assert found.refusals == ("wrong: a tap too far",) and found.failures == ()
    assert [reference.partition("@")[0] for reference in found.asked] == ["mine", "other", "too", "wrong"]


def test_one_that_fails_is_named_and_keeps_no_other_from_answering(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = asked(
        tmp_path,
        monkeypatch,
        crash="raise RuntimeError('crashed')",
        mine=f"return {TENSORS}",
        strange="return ['draft.fc']",
        strict="raise ArtifactInvalid('m.ninfer', ['not mine'])",
    )
    assert [claim.plugin.offer.name for claim in found.claims] == ["mine"]
    crash, strange, strict = (failure.message for failure in found.failures)
    assert "'crash'" in crash and "crashed" in crash
    assert "str, where TensorSpec belongs" in strange
    assert "failed in ninfer_spec_inventory: m.ninfer" in strict
