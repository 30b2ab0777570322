"""The Qwen3.5 / 3.6 / 3.8 hybrid family: Gated DeltaNet with gated attention, dense and MoE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ninfer_core.api import hookimpl
from ninfer_models.qwen_hybrid.config import is_ours
from ninfer_models.qwen_hybrid.dummies import dummy_headers
from ninfer_models.qwen_hybrid.geometry import build_geometry
from ninfer_models.qwen_hybrid.inventory import build_inventory, build_matrices
from ninfer_models.qwen_hybrid.reference_operations import reference_operations
from ninfer_models.qwen_hybrid.resident import build_resident
from ninfer_models.qwen_hybrid.workspace import workspace_bytes

if TYPE_CHECKING:
    import torch

    from ninfer_core.api import (
        ArtifactHeader,
        BuildShape,
        Frontend,
        Geometry,
        Model,
        OutputFormat,
        OutputVocabulary,
        TensorSpec,
        WeightSource,
    )


@hookimpl
def ninfer_family_match(header: ArtifactHeader) -> bool:
    return is_ours(header.config)


@hookimpl
def ninfer_family_geometry(header: ArtifactHeader, activation_dtype: str) -> Geometry:
    return build_geometry(header, activation_dtype)


@hookimpl
def ninfer_family_inventory(header: ArtifactHeader) -> Sequence[TensorSpec]:
    return build_inventory(header)


@hookimpl
def ninfer_family_matrices(header: ArtifactHeader) -> Sequence[str]:
    return build_matrices(header)


@hookimpl
def ninfer_family_resident(
    header: ArtifactHeader, activation_dtype: str, groups: Sequence[str]
) -> Sequence[TensorSpec]:
    return build_resident(header, activation_dtype, groups)


@hookimpl
def ninfer_family_frontend(header: ArtifactHeader) -> Frontend:
    from ninfer_models.qwen_hybrid.frontend import build_frontend

    return build_frontend(header)


@hookimpl
def ninfer_family_vocabulary(header: ArtifactHeader) -> OutputVocabulary:
    from ninfer_models.qwen_hybrid.frontend.output_vocabulary import build_vocabulary

    return build_vocabulary(header)


@hookimpl
def ninfer_family_output_format() -> OutputFormat:
    from ninfer_models.qwen_hybrid.frontend.output_format import QwenOutputFormat

    return QwenOutputFormat()


@hookimpl
def ninfer_family_workspace(header: ArtifactHeader, shape: BuildShape) -> int:
    return workspace_bytes(header, shape)


@hookimpl
def ninfer_family_reference_operations(header: ArtifactHeader) -> Sequence[str]:
    return reference_operations(header)


@hookimpl
def ninfer_family_build(
    header: ArtifactHeader, shape: BuildShape, weights: WeightSource, device: torch.device
) -> Model:
    from ninfer_models.qwen_hybrid.text import build_text_model

    return build_text_model(
        header,
        shape.activation_dtype,
        shape.decode_columns,
        weights,
        device,
        shape.kernels,
        groups=shape.groups,
        taps=shape.taps,
    )


@hookimpl
def ninfer_family_dummies() -> Mapping[str, ArtifactHeader]:
    from ninfer_models.qwen_hybrid.frontend import dummy_notes, dummy_resources

    return dummy_headers(dummy_resources(), dummy_notes())
