"""What of a model no kernel takes. No torch."""

from __future__ import annotations

from ninfer_core.api import ArtifactHeader
from ninfer_core.ops.workspace import gated_delta
from ninfer_core.ops.workspace.linear_tiles import INPUT_MULTIPLES
from ninfer_models.qwen_hybrid.config import QwenHybridConfig, parse_config
from ninfer_models.qwen_hybrid.inventory import Naming
from ninfer_models.qwen_hybrid.resident import ResidentMatrix, list_residents


def reference_operations(header: ArtifactHeader) -> list[str]:
    """What `ops.delta_mixer` and `ops.linear` compute by their references on a CUDA device, and why. Raises
    ArtifactInvalid."""
    config = parse_config(header)
    return [*_mixer(config), *_products(config, Naming(header, config))]


def _mixer(config: QwenHybridConfig) -> list[str]:
    layer = {"conv_width": config.conv_width, "key_dim": config.key_dim, "value_dim": config.value_dim}
    shape = f"heads of {config.key_dim} × {config.value_dim} elements and a convolution of width {config.conv_width}"
    if not gated_delta.decodes_by_kernels(**layer):
        return [f"Gated DeltaNet: no kernels for {shape}"]
    if not gated_delta.prefills_by_kernels(**layer):
        return [f"prefill of Gated DeltaNet: no kernels for {shape}"]
    return []


def _products(config: QwenHybridConfig, naming: Naming) -> list[str]:
    """A line for all matrices of one number of inputs. Those of experts, stacked, are `ops.moe`'s, which takes any."""
    matrices = (each for each in list_residents(config, naming, "bfloat16") if isinstance(each, ResidentMatrix))
    kinds = {(each.format, each.shape[-1]) for each in matrices if len(each.shape) == 2}
    return [
        f"products with {format} matrices of {inputs} inputs: no kernels where that is no multiple of {multiple}"
        for format, inputs in sorted(kinds)
        if inputs % (multiple := INPUT_MULTIPLES[format])
    ]
