"""The tiny random model is the same everywhere and passes for a real artifact."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ninfer_core.artifact import inventory_problems, open_artifact
from ninfer_core.plugins import PluginRegistry
from ninfer_core.testing.tiny import TOKEN_ROWS, tiny_artifact, tiny_header, tiny_plan, write_tiny_artifact

FINGERPRINT = """
import hashlib
from ninfer_core.testing.tiny import tiny_artifact
artifact = tiny_artifact()
digest = hashlib.sha256()
for tensor in artifact.header.tensors:
    for piece in artifact.store.chunks(tensor.name):
        digest.update(piece)
print(digest.hexdigest())
"""


@pytest.fixture(scope="module")
def registry() -> PluginRegistry:
    return PluginRegistry.discover()


@pytest.mark.parametrize("experts", [False, True], ids=["dense", "experts"])
def test_a_file_of_it_holds_what_memory_holds(experts: bool, tmp_path: Path, registry: PluginRegistry) -> None:
    artifact = tiny_artifact(experts=experts)
    opened = open_artifact(str(write_tiny_artifact(tmp_path / "tiny.ninfer", experts=experts)), registry)
    assert opened.header.identity == artifact.header.identity
    assert opened.header.resources == artifact.header.resources
    assert set(opened.header.tensors) == set(artifact.header.tensors)
    with opened.open_weights() as stored, artifact.open_weights() as made:
        for tensor in artifact.header.tensors:
            device = torch.device("cpu")
            assert torch.equal(stored.read(tensor.name, device), made.read(tensor.name, device))


def test_the_family_knows_every_tensor(registry: PluginRegistry) -> None:
    header = tiny_header(experts=True)
    (offer,) = [offer for offer in registry.offers("family") if offer.name == "qwen-hybrid"]
    inventory = registry.load(offer).hook.ninfer_family_inventory(header=header)
    assert inventory_problems(header, inventory, frozenset({"text"})) == []


def test_another_process_makes_the_same_weights() -> None:
    artifact = tiny_artifact()
    digest = hashlib.sha256()
    for tensor in artifact.header.tensors:
        for piece in artifact.store.chunks(tensor.name):
            digest.update(piece)
    other = subprocess.run([sys.executable, "-c", FINGERPRINT], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == digest.hexdigest()


def test_its_plan_keeps_padding_rows_out_of_sampling(registry: PluginRegistry) -> None:
    plan = tiny_plan(registry, tiny_header(), max_context=128)
    assert (plan.geometry.vocabulary_rows, plan.token_domain) == (TOKEN_ROWS, 289)
    assert plan.activation_dtype == "float32"
