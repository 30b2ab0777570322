"""Puts what the model holds together from an artifact's tensors.

Everything is read into the place where it stays: no second copy of a large tensor is made, unless its numbers have to
be converted, which happens a few million at a time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from ninfer_core.api import ArtifactHeader, ArtifactInvalid, StoredMatrix, WeightSource, fp8_blocks
from ninfer_core.api.stored_matrix import FP8_BLOCK
from ninfer_core.ops.linear import DenseMatrix, Fp8Matrix, Matrix, Nvfp4Matrix, arrange, dense
from ninfer_models.qwen_hybrid.config import QwenHybridConfig
from ninfer_models.qwen_hybrid.inventory import Naming
from ninfer_models.qwen_hybrid.resident import (
    INVERSE_FREQUENCY,
    ROPE_AXIS,
    TEXT_ONLY,
    ResidentMatrix,
    ResidentRows,
    ResidentTensor,
    list_residents,
)
from ninfer_models.qwen_hybrid.rotation import axes, inverse_frequencies

_CONVERTED_ELEMENTS = 8 * 2**20
"""Numbers converted at a time: 32 MiB of float32."""


@dataclass(frozen=True, slots=True)
class Weights:
    """What `list_residents` lists, by name."""

    tensors: Mapping[str, torch.Tensor]
    matrices: Mapping[str, Matrix]


def load_weights(
    header: ArtifactHeader,
    config: QwenHybridConfig,
    source: WeightSource,
    activation_dtype: str,
    device: torch.device,
    groups: Sequence[str] = TEXT_ONLY,
) -> Weights:
    """Everything of `list_residents`, on `device`. Raises ArtifactInvalid for a reduced head that lists no tokens of
    the head."""
    tensors = {
        INVERSE_FREQUENCY: torch.tensor(inverse_frequencies(config.rope), dtype=torch.float32, device=device),
        ROPE_AXIS: torch.tensor(axes(config.rope), dtype=torch.int64, device=device),
    }
    matrices: dict[str, Matrix] = {}
    residents = list_residents(config, Naming(header, config), activation_dtype, groups)
    source.expect([name for each in residents for name in each.sources])
    dtype_by_name = {spec.name: spec.dtype for spec in header.tensors}
    for resident in residents:
        if isinstance(resident, ResidentMatrix):
            matrices[resident.name] = _Reader(source, device).matrix(resident)
        elif isinstance(resident, ResidentRows):
            ids = _token_ids(header.source, resident, source, device)
            name = resident.whole.name
            whole = matrices[name] if name in matrices else DenseMatrix(tensors[name])
            tensors[resident.ids], matrices[resident.name] = ids, _rows_of(whole, ids)
        elif resident.part is not None:
            tensors[resident.name] = _tensor(resident, resident.part, dtype_by_name[resident.part], source, device)
    return Weights(tensors, matrices)


def _token_ids(artifact: str, resident: ResidentRows, source: WeightSource, device: torch.device) -> torch.Tensor:
    ids = source.read(resident.token_ids, device).long()
    most = resident.whole.shape[0]
    wrong = int(((ids < 0) | (ids >= most)).sum())
    if wrong:
        problem = (
            f"{wrong} of the {len(ids)} ids of {resident.token_ids} are not in 0..{most - 1}, the rows of the head"
        )
        raise ArtifactInvalid(artifact, [problem])
    return ids


def _rows_of(matrix: Matrix, rows: torch.Tensor) -> Matrix:
    """A copy; tensors of one byte an element are moved as bytes, which every device can gather."""
    return type(matrix)(*(_gathered(tensor, rows) for tensor in matrix.tensors))


def _gathered(tensor: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    if tensor.element_size() == 1:
        return tensor.view(torch.uint8).index_select(0, rows).view(tensor.dtype)
    return tensor.index_select(0, rows)


def _tensor(
    resident: ResidentTensor, part: str, stored_dtype: str, source: WeightSource, device: torch.device
) -> torch.Tensor:
    out = torch.empty(resident.shape, dtype=getattr(torch, resident.dtype), device=device)
    _read_converted(part, stored_dtype, out.view(-1), source)
    return out


def _read_converted(name: str, stored_dtype: str, out: torch.Tensor, source: WeightSource) -> None:
    """A whole tensor into `out` [elements] of any dtype."""
    if out.dtype == getattr(torch, stored_dtype):
        source.read_into(name, out)
        return
    scratch = out.new_empty(min(out.numel(), _CONVERTED_ELEMENTS), dtype=getattr(torch, stored_dtype))
    for start in range(0, out.numel(), _CONVERTED_ELEMENTS):
        piece = out[start : start + _CONVERTED_ELEMENTS]
        source.read_into(name, scratch[: piece.numel()], start)
        piece.copy_(scratch[: piece.numel()])


class _Reader:
    """Reads matrices of one source."""

    def __init__(self, source: WeightSource, device: torch.device) -> None:
        self._source = source
        self._device = device

    def matrix(self, resident: ResidentMatrix) -> Matrix:
        *rows, inputs = resident.shape
        if resident.format == "fp8":
            return self._fp8(resident, rows, inputs)
        if resident.format == "nvfp4":
            return self._nvfp4(resident, rows, inputs)
        out = self._empty(resident.shape, getattr(torch, resident.dtype))
        flat, start = out.view(-1, inputs), 0
        for part in resident.parts:
            stop = start + _rows(part)
            self._dense_part(part, flat[start:stop])
            start = stop
        return DenseMatrix(out)

    def _fp8(self, resident: ResidentMatrix, rows: list[int], inputs: int) -> Fp8Matrix:
        codes = self._empty((*rows, inputs), torch.float8_e4m3fn)
        scale = self._empty((*rows, resident.scale_groups), torch.float32)
        flat, flat_scale, start = codes.view(-1, inputs), scale.view(-1, resident.scale_groups), 0
        for part in resident.parts:
            stop = start + _rows(part)
            self._source.read_into(part.codes.name, flat[start:stop].view(-1))
            flat_scale[start:stop].copy_(self._row_scales(part))
            start = stop
        return Fp8Matrix(codes, scale)

    def _nvfp4(self, resident: ResidentMatrix, rows: list[int], inputs: int) -> Nvfp4Matrix:
        codes = self._empty((*rows, inputs // 2), torch.uint8)
        block_scale = self._empty((*rows, inputs // 16), torch.float8_e4m3fn)
        scale = self._empty((*rows,), torch.float32)
        flat, flat_blocks, flat_scale = codes.view(-1, inputs // 2), block_scale.view(-1, inputs // 16), scale.view(-1)
        start = 0
        for part in resident.parts:
            assert part.block_scale is not None
            stop = start + _rows(part)
            self._source.read_into(part.codes.name, flat[start:stop].view(-1))
            arrange(flat[start:stop])
            self._source.read_into(part.block_scale.name, flat_blocks[start:stop].view(-1))
            flat_scale[start:stop].copy_(self._row_scales(part).squeeze(-1))
            start = stop
        return Nvfp4Matrix(codes, block_scale, scale)

    def _dense_part(self, part: StoredMatrix, out: torch.Tensor) -> None:
        """The numbers of a part into `out` [rows, inputs]."""
        if part.format == "dense":
            _read_converted(part.codes.name, part.codes.dtype, out.view(-1), self._source)
            return
        alone = ResidentMatrix(name="", shape=part.shape, dtype="float32", parts=(part,))
        coded = self.matrix(alone)
        flat = type(coded)(*(each.flatten(0, len(part.shape) - 2) for each in coded.tensors))
        step = max(1, _CONVERTED_ELEMENTS // part.shape[-1])
        for start in range(0, out.shape[0], step):
            some = type(flat)(*(each[start : start + step] for each in flat.tensors))
            out[start : start + step].copy_(dense(some, out.dtype))

    def _row_scales(self, part: StoredMatrix) -> torch.Tensor:
        """What each row of a part is multiplied by: float32 [rows, groups]."""
        assert part.scale is not None
        *matrices, outputs, _ = part.shape
        stored = self._source.read(part.scale.name, self._device).float()
        if part.divides:
            stored = 1.0 / stored
        if part.format == "fp8" and stored.shape == fp8_blocks(part.shape):
            return stored.repeat_interleave(FP8_BLOCK, -2)[..., :outputs, :].reshape(-1, stored.shape[-1])
        if stored.numel() == math.prod(matrices) * outputs:
            return stored.reshape(-1, 1)
        one_each = stored.reshape(-1, 1, 1).expand(math.prod(matrices), outputs, 1)
        return one_each.reshape(-1, 1)

    def _empty(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device=self._device)


def _rows(part: StoredMatrix) -> int:
    return math.prod(part.shape[:-1])
