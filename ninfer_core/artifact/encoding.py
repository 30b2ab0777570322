"""An artifact in another numeric form than it is stored in: its matrices are encoded while they are read.

The header is that of the file that `ninfer convert --weights` writes, so that plan, ledger and family see no difference
between an artifact that was converted and one that is encoded on its way to the device; the codes are the same, too.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from ninfer_core.api.artifact import ArtifactHeader, TensorSpec
from ninfer_core.api.errors import ArtifactInvalid
from ninfer_core.api.stored_matrix import NVFP4_GROUP, StoredMatrix, WeightsFormat, encoded_matrix
from ninfer_core.artifact.finite import all_finite, count_nonfinite, nonfinite_problem
from ninfer_core.artifact.handle import ArtifactHandle, TensorStore
from ninfer_core.artifact.identity import CODED_FORMS
from ninfer_core.artifact.weights import OpenWeights
from ninfer_core.plugins import LoadedPlugin

if TYPE_CHECKING:
    import torch

_CHUNK_ELEMENTS = 16 * 1024 * 1024
"""Numbers encoded at a time. Encoding needs some 30 bytes for each."""


def encoding_problem(header: ArtifactHeader, family: LoadedPlugin, weights: WeightsFormat) -> str | None:
    """Why the artifact cannot be had in that form, None where it can."""
    stored = header.identity.weights_id
    if stored == weights or (weights == "bf16" and stored not in CODED_FORMS):
        return None
    if stored in CODED_FORMS:
        return (
            f"the weights are stored as {stored}, and {weights} is made from weights in 16 bits or more; use {stored}, "
            "or the checkpoint that they were made from"
        )
    if not _matrix_names(header, family):
        return f"family '{family.offer.name}' names no matrices of it that can be stored as {weights}"
    return None


def encoded_artifact(handle: ArtifactHandle, family: LoadedPlugin, weights: str) -> ArtifactHandle:
    """The artifact with the `weights_id` of a form of codes; itself where it has it, and for every other form. There
    must be no `encoding_problem`."""
    header = handle.header
    if weights not in CODED_FORMS or weights == header.identity.weights_id:
        return handle
    names = _matrix_names(header, family)
    matrices = {spec.name: encoded_matrix(spec, weights) for spec in header.tensors if spec.name in names}
    matrices = {name: matrix for name, matrix in matrices.items() if matrix.format != "dense"}
    tensors: list[TensorSpec] = []
    for spec in header.tensors:
        tensors.extend(matrices[spec.name].tensors if spec.name in matrices else [spec])
    identity = msgspec.structs.replace(header.identity, weights_id=weights)
    coded = msgspec.structs.replace(header, identity=identity, tensors=tuple(tensors))
    store = EncodingStore(header.source, handle.store, {spec.name: spec for spec in header.tensors}, matrices)
    return ArtifactHandle(header=coded, notes=handle.notes, store=store)


def _matrix_names(header: ArtifactHeader, family: LoadedPlugin) -> frozenset[str]:
    return frozenset(family.hook.ninfer_family_matrices(header=header) or ())


@dataclass(frozen=True, slots=True)
class EncodingStore:
    """`plain` are the tensors of `store` by name, `matrices` those of them that are encoded, as they will be."""

    source: str
    store: TensorStore
    plain: Mapping[str, TensorSpec]
    matrices: Mapping[str, StoredMatrix]

    def open_weights(self) -> OpenWeights:
        return EncodingWeights(self.source, self.store.open_weights(), self.plain, self.matrices)

    def chunks(self, name: str) -> Iterator[bytes]:
        """One tensor by itself; whoever wants many of them opens the weights once."""
        with self.open_weights() as weights:
            yield tensor_bytes(weights, name)


def tensor_bytes(weights: OpenWeights, name: str) -> bytes:
    """A tensor's bytes as a file has them."""
    import torch

    tensor = weights.read(name, torch.device("cpu"))
    return ctypes.string_at(tensor.data_ptr(), tensor.nbytes)


class EncodingWeights:
    """Codes and scales made from plain weights, on the device they are read to.

    The scales of a matrix are kept from when its codes are read until they are read themselves, so that a matrix is
    encoded once when its tensors are read one after the other. A matrix with values that are no numbers is
    ArtifactInvalid.
    """

    def __init__(
        self, source: str, weights: OpenWeights, plain: Mapping[str, TensorSpec], matrices: Mapping[str, StoredMatrix]
    ) -> None:
        self._source = source
        self._weights = weights
        self._plain = plain
        self._matrices = matrices
        self._owners = {spec.name: name for name, matrix in matrices.items() for spec in matrix.tensors}
        self._made: dict[str, torch.Tensor] = {}

    def expect(self, names: Iterable[str]) -> None:
        """See the Protocol: scales come from codes."""
        self._weights.expect([name for name in names if self._owners.get(name, name) == name])

    def read(self, name: str, device: torch.device) -> torch.Tensor:
        import torch

        owner = self._owners.get(name)
        if owner is None:
            return self._weights.read(name, device)
        spec = next(spec for spec in self._matrices[owner].tensors if spec.name == name)
        out = torch.empty(spec.shape, dtype=getattr(torch, spec.dtype), device=device)
        self.read_into(name, out.view(-1))
        return out

    def read_into(self, name: str, out: torch.Tensor, start: int = 0) -> None:
        owner = self._owners.get(name)
        if owner is None:
            self._weights.read_into(name, out, start)
            return
        matrix = self._matrices[owner]
        if name == owner and name not in self._made and start == 0 and out.numel() == matrix.codes.elements:
            self._encode(owner, out)
            return
        if name not in self._made:
            codes = out.new_empty(matrix.codes.elements, dtype=_dtype(matrix.codes.dtype))
            self._encode(owner, codes)
            self._made[owner] = codes
        flat = self._made[name].to(out.device).view(-1)
        out.view(-1).copy_(flat[start : start + out.numel()])
        if start + out.numel() == flat.numel():
            del self._made[name]

    def close(self) -> None:
        self._made.clear()
        self._weights.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _encode(self, name: str, codes: torch.Tensor) -> None:
        """The codes of a matrix into `codes` [elements]; its scales are kept."""
        matrix, spec = self._matrices[name], self._plain[name]
        assert matrix.scale is not None
        if matrix.format == "fp8":
            scale = self._encode_fp8(spec, codes)
        else:
            assert matrix.block_scale is not None
            blocks, scale = self._encode_nvfp4(spec, codes)
            self._made[matrix.block_scale.name] = blocks
        # A scale is that of the largest number it is for, and of a NaN a NaN.
        if not all_finite(scale):
            count = count_nonfinite(self._weights.read(name, scale.device))
            raise ArtifactInvalid(self._source, [nonfinite_problem(name, count, spec.elements)])
        self._made[matrix.scale.name] = scale

    def _encode_fp8(self, spec: TensorSpec, codes: torch.Tensor) -> torch.Tensor:
        """-> scales [rows]."""
        import torch

        from ninfer_core.ops.linear import encode_fp8

        inputs, rows = spec.shape[-1], spec.elements // spec.shape[-1]
        scales = torch.empty(rows, dtype=torch.float32, device=codes.device)
        step = min(rows, max(1, _CHUNK_ELEMENTS // inputs))
        scratch = codes.new_empty(step, inputs, dtype=_dtype(spec.dtype))
        flat = codes.view(rows, inputs)
        for start in range(0, rows, step):
            piece = scratch[: min(step, rows - start)]
            self._weights.read_into(spec.name, piece.view(-1), start * inputs)
            coded = encode_fp8(piece)
            flat[start : start + step].copy_(coded.codes)
            scales[start : start + step].copy_(coded.scale.squeeze(-1))
        return scales

    def _encode_nvfp4(self, spec: TensorSpec, codes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """-> block scales [rows * blocks], scales [matrices]. A matrix is read as a whole, small ones several at a
        time: its scale is that of its largest number."""
        import torch

        from ninfer_core.ops.linear import nvfp4_codes, nvfp4_scale

        *leading, outputs, inputs = spec.shape
        matrices, size = math.prod(leading), outputs * inputs
        together, step = max(1, _CHUNK_ELEMENTS // size), max(1, _CHUNK_ELEMENTS // inputs)
        blocks = torch.empty(matrices, outputs, inputs // NVFP4_GROUP, dtype=torch.float8_e4m3fn, device=codes.device)
        scales = torch.empty(matrices, dtype=torch.float32, device=codes.device)
        scratch = codes.new_empty(min(together, matrices), outputs, inputs, dtype=_dtype(spec.dtype))
        flat = codes.view(matrices, outputs, inputs // 2)
        for index in range(0, matrices, together):
            some = slice(index, index + together)
            whole = scratch[: len(scales[some])]
            self._weights.read_into(spec.name, whole.view(-1), index * size)
            low, high = whole.amin((-2, -1)), whole.amax((-2, -1))
            scales[some] = nvfp4_scale(torch.maximum(-low, high).float())
            for start in range(0, outputs, step):
                coded, block_scale = nvfp4_codes(whole[:, start : start + step], scales[some])
                flat[some, start : start + step].copy_(coded)
                blocks[some, start : start + step].copy_(block_scale)
        return blocks.view(-1), scales


def _dtype(name: str) -> torch.dtype:
    import torch

    dtype = getattr(torch, name)
    assert isinstance(dtype, torch.dtype), name
    return dtype
