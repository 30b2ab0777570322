"""Puts the resident tensors together from an artifact's. The only peak above the model is one part being read."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ninfer_core.api import ArtifactHeader, WeightSource
from ninfer_models.qwen_hybrid.config import QwenHybridConfig
from ninfer_models.qwen_hybrid.inventory import Naming
from ninfer_models.qwen_hybrid.resident import INVERSE_FREQUENCY, ROPE_AXIS, Resident, list_residents
from ninfer_models.qwen_hybrid.rotation import axes, inverse_frequencies

Weights = Mapping[str, torch.Tensor]
"""Resident tensors by name."""


def load_weights(
    header: ArtifactHeader, config: QwenHybridConfig, source: WeightSource, activation_dtype: str, device: torch.device
) -> Weights:
    """Every tensor of `list_residents`, on `device`."""
    weights = {
        INVERSE_FREQUENCY: torch.tensor(inverse_frequencies(config.rope), dtype=torch.float32, device=device),
        ROPE_AXIS: torch.tensor(axes(config.rope), dtype=torch.int64, device=device),
    }
    for resident in list_residents(config, Naming(header, config), activation_dtype):
        if resident.parts:
            weights[resident.name] = _join(resident, source, device)
    return weights


def _join(resident: Resident, source: WeightSource, device: torch.device) -> torch.Tensor:
    dtype = getattr(torch, resident.dtype)
    if len(resident.parts) == 1:
        return source.read(resident.parts[0], device).to(dtype).view(resident.shape)
    joined = torch.empty(resident.shape, dtype=dtype, device=device)
    flat, start = joined.view(-1), 0
    for name in resident.parts:
        part = source.read(name, device)
        flat[start : start + part.numel()].copy_(part.view(-1))
        start += part.numel()
    assert start == flat.numel(), f"{resident.name}: the parts have {start} of {flat.numel()} elements"
    return joined
