"""Bytes of temporaries of the largest unit of work: a prefill chunk or a decode round, whichever needs more, by the
routes that will run. No torch."""

from __future__ import annotations

from ninfer_core.api import DTYPE_BYTES, ArtifactHeader, BuildShape
from ninfer_core.api.stored_matrix import FP8_CODES, NVFP4_CODES
from ninfer_core.ops.workspace import linear, with_room
from ninfer_models.qwen_hybrid.config import QwenHybridConfig, parse_config
from ninfer_models.qwen_hybrid.kernel_workspace import KernelUnit, matrix_forms
from ninfer_models.qwen_hybrid.reference_workspace import ReferenceUnit

_CODES = (FP8_CODES, NVFP4_CODES)


def workspace_bytes(header: ArtifactHeader, shape: BuildShape) -> int:
    """Upper bound of the temporaries alive at once, up to and with the logits. Raises ArtifactInvalid."""
    config = parse_config(header)
    if shape.kernels == "auto":
        return with_room(_peak(_kernel_units(header, config, shape), shape))
    return _peak(_reference_units(header, config, shape), shape)


def _peak(units: tuple[KernelUnit, KernelUnit] | tuple[ReferenceUnit, ReferenceUnit], shape: BuildShape) -> int:
    peaks = [unit.peak() for unit in units]
    if "mtp" in shape.groups:
        peaks += [unit.next_token_peak() for unit in units]
    return max(peaks)


def _kernel_units(header: ArtifactHeader, config: QwenHybridConfig, shape: BuildShape) -> tuple[KernelUnit, KernelUnit]:
    """Prefill and decode."""
    activation, head_class = DTYPE_BYTES[shape.activation_dtype], linear.DECODE_ROWS * shape.decode_columns
    forms = matrix_forms(header, config, shape.groups)
    rows, columns = shape.decode_rows, shape.decode_columns
    return (
        KernelUnit(config, activation, forms, 1, shape.prefill_tokens, row_class=0, head_class=head_class),
        KernelUnit(config, activation, forms, rows, columns, row_class=head_class, head_class=head_class),
    )


def _reference_units(
    header: ArtifactHeader, config: QwenHybridConfig, shape: BuildShape
) -> tuple[ReferenceUnit, ReferenceUnit]:
    """Prefill and decode."""
    activation, head_class = DTYPE_BYTES[shape.activation_dtype], linear.DECODE_ROWS * shape.decode_columns
    coded = any(tensor.dtype in _CODES for tensor in header.tensors)
    rows, columns = shape.decode_rows, shape.decode_columns
    return (
        ReferenceUnit(config, activation, coded, 1, shape.prefill_tokens, row_class=0, head_class=head_class),
        ReferenceUnit(config, activation, coded, rows, columns, row_class=head_class, head_class=head_class),
    )
