"""What of a model no kernel takes, by the shapes of its matrices."""

from __future__ import annotations

import msgspec
import pytest
from ninfer_models.qwen_hybrid.dummies import dummy_headers
from ninfer_models.qwen_hybrid.inventory import build_inventory
from ninfer_models.qwen_hybrid.reference_operations import reference_operations

from ninfer_core.api import ArtifactHeader
from ninfer_core.artifact.dummy import DummyStore
from ninfer_core.artifact.encoding import encoded_artifact
from ninfer_core.artifact.handle import ArtifactHandle
from ninfer_core.plugins import LoadedPlugin, PluginRegistry


@pytest.fixture(scope="module")
def family() -> LoadedPlugin:
    registry = PluginRegistry.discover(environment={})
    return registry.load(registry.select("family", "qwen-hybrid"))


def four_bits(family: LoadedPlugin, **sizes: int) -> ArtifactHeader:
    """The published model with experts, with other sizes, in nvfp4."""
    header = dummy_headers({})["qwen3.6-35b-a3b"]
    config = {**header.config, **sizes}
    header = msgspec.structs.replace(header, config=config, tensors=())
    header = msgspec.structs.replace(header, tensors=build_inventory(header))
    handle = ArtifactHandle(header=header, notes=(), store=DummyStore(header))
    return encoded_artifact(handle, family, "nvfp4").header


def test_products_that_no_kernel_takes_are_named(family: LoadedPlugin) -> None:
    assert reference_operations(four_bits(family)) == []
    (said,) = reference_operations(four_bits(family, shared_expert_intermediate_size=448))
    assert said.startswith("products with nvfp4 matrices of 448 inputs: no kernels")


def test_kernels_take_experts_of_any_width(family: LoadedPlugin) -> None:
    assert reference_operations(four_bits(family, moe_intermediate_size=448)) == []
