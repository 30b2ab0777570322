"""What of a model no kernel takes. No torch."""

from __future__ import annotations

from ninfer_core.api import ArtifactHeader
from ninfer_core.ops.workspace import gated_delta
from ninfer_models.qwen_hybrid.config import parse_config


def reference_operations(header: ArtifactHeader) -> list[str]:
    """The parts that `ops.delta_mixer` computes by its reference on a CUDA device, and why. Raises ArtifactInvalid."""
    config = parse_config(header)
    layer = {"conv_width": config.conv_width, "key_dim": config.key_dim, "value_dim": config.value_dim}
    shape = f"heads of {config.key_dim} × {config.value_dim} elements and a convolution of width {config.conv_width}"
    if not gated_delta.decodes_by_kernels(**layer):
        return [f"Gated DeltaNet: no kernels for {shape}"]
    if not gated_delta.prefills_by_kernels(**layer):
        return [f"prefill of Gated DeltaNet: no kernels for {shape}"]
    return []
