"""The forms in which an artifact can hold a matrix: as it is, in 8 bits, in 4 bits. No torch.

`NAME` is what the plain form is called (`layers.0.mlp.down_proj.weight`, or `layers.0.mlp.experts.down_proj` without
an ending); scales are called after it. Which form it is follows from dtypes and shapes and never from the name, since
one checkpoint can hold several forms under one name.

For a matrix of n = [..., outputs, inputs]:

    dense           NAME float32, float16 or bfloat16, n
    fp8             NAME float8_e4m3fn, n; NAME_scale_inv or NAME_scale, which multiplies in spite of the first name,
                    for 128 x 128 blocks [..., outputs / 128, inputs / 128], rounded up; or for rows [..., outputs] or
                    [..., outputs, 1]; or one number, for the whole or for each matrix of the leading axes
    nvfp4           NAME uint8 [..., outputs, inputs / 2]; NAME_scale float8_e4m3fn [..., outputs, inputs / 16];
                    NAME_scale_2, one number for the whole or for each matrix: e2m1(code) * scale * scale_2
    nvfp4, packed   NAME_packed instead of NAME, and NAME_global_scale, which divides, instead of NAME_scale_2

Two 4-bit codes share a byte, the even input in the low half. Scales without a dtype here are float32, bfloat16 or
float16. Scales of activations (`input_scale`, `input_global_scale`, `k_scale`, `v_scale` in the place of `weight...`)
may be there and are not used: activations keep 16 bits or are scaled by what they are, and so are keys and values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from ninfer_core.api.artifact import TensorSpec

MatrixFormat = Literal["dense", "fp8", "nvfp4"]
WeightsFormat = Literal["bf16", "fp8", "nvfp4"]
"""What users ask for; matrices of `bf16` are dense."""

FP8_BLOCK = 128
"""Outputs and inputs that share a scale in a checkpoint with scales in blocks."""
NVFP4_GROUP = 16
"""Inputs that share a block scale."""

DENSE_DTYPES = frozenset({"float32", "float16", "bfloat16"})
FP8_CODES = "float8_e4m3fn"
NVFP4_CODES = "uint8"
_UNUSED_ENDINGS = ("input_scale", "input_global_scale", "output_scale", "k_scale", "v_scale")
SUPPORTED = (
    "supported: float32, float16, bfloat16; float8_e4m3fn with a scale for 128 x 128 blocks, for rows or for the "
    "whole; nvfp4 (uint8 codes, a float8_e4m3fn scale for 16 inputs, one float scale)"
)


class StoredMatrix(msgspec.Struct, frozen=True, kw_only=True):
    """One matrix as the artifact holds it. `shape` is that of the numbers, [..., outputs, inputs].

    `scale` belongs to fp8 (any of its shapes) and to nvfp4 (one for each matrix); with `divides` the numbers are
    divided by it. `block_scale` belongs to nvfp4. `unused` is there and not read.
    """

    shape: tuple[int, ...]
    format: MatrixFormat
    codes: TensorSpec
    scale: TensorSpec | None = None
    block_scale: TensorSpec | None = None
    divides: bool = False
    unused: tuple[TensorSpec, ...] = ()

    @property
    def tensors(self) -> tuple[TensorSpec, ...]:
        """Everything of it that the artifact holds."""
        found = (self.codes, self.block_scale, self.scale)
        return (*(spec for spec in found if spec is not None), *self.unused)

    @property
    def scale_groups(self) -> int:
        """Scales along the inputs of one row, 1 where one holds for all of them."""
        blocks = fp8_blocks(self.shape)
        in_blocks = self.format == "fp8" and self.scale is not None and self.scale.shape == blocks
        return blocks[-1] if in_blocks else 1


def fp8_blocks(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of the scales in blocks of a matrix [..., outputs, inputs]."""
    return (*shape[:-2], -(-shape[-2] // FP8_BLOCK), -(-shape[-1] // FP8_BLOCK))


def find_matrix(
    stored: Mapping[str, TensorSpec], name: str, shape: tuple[int, ...], group: str, problems: list[str]
) -> StoredMatrix:
    """The matrix that a plain artifact would call `name`. What is not there at all counts as bfloat16.

    Shapes are what they have to be, also where `stored` says otherwise: the inventory is held against the artifact
    afterwards. A form that is none of these is added to `problems`, and the dense form returned.
    """
    return _Finder(stored, name, shape, group).find(problems)


class _Finder:
    def __init__(self, stored: Mapping[str, TensorSpec], name: str, shape: tuple[int, ...], group: str) -> None:
        self._stored = stored
        self._name = name
        self._shape = shape
        self._group = group

    def find(self, problems: list[str]) -> StoredMatrix:
        codes = self._stored.get(self._name)
        packed = self._stored.get(f"{self._name}_packed")
        if codes is None and packed is None:
            return self._dense("bfloat16")
        found: StoredMatrix | None = None
        if codes is None:
            found = self._nvfp4(f"{self._name}_packed", "_global_scale")
        elif codes.dtype in DENSE_DTYPES:
            found = self._dense(codes.dtype)
        elif codes.dtype == FP8_CODES:
            found = self._fp8()
        elif codes.dtype == NVFP4_CODES:
            found = self._nvfp4(self._name, "_scale_2")
        if found is not None:
            return found
        problems.append(f"{self._name} is stored in a form that is not read: {self._description()}; {SUPPORTED}")
        return self._dense("bfloat16")

    def _dense(self, dtype: str) -> StoredMatrix:
        return StoredMatrix(shape=self._shape, format="dense", codes=self._spec(self._name, self._shape, dtype))

    def _fp8(self) -> StoredMatrix | None:
        matrices, outputs = self._shape[:-2], self._shape[-2]
        legal = {(), (1,), matrices, (*matrices, 1), (*matrices, 1, 1)}
        legal |= {(*matrices, outputs), (*matrices, outputs, 1), fp8_blocks(self._shape)}
        for ending in ("_scale_inv", "_scale"):
            scale = self._sibling(ending)
            if scale is not None and scale.dtype in DENSE_DTYPES and scale.shape in legal:
                return StoredMatrix(
                    shape=self._shape,
                    format="fp8",
                    codes=self._spec(self._name, self._shape, FP8_CODES),
                    scale=scale,
                    unused=self._activation_scales(),
                )
        return None

    def _nvfp4(self, codes: str, ending: str) -> StoredMatrix | None:
        matrices, inputs = self._shape[:-2], self._shape[-1]
        block_scale, scale = self._sibling("_scale"), self._sibling(ending)
        if inputs % NVFP4_GROUP or block_scale is None or block_scale.dtype != FP8_CODES:
            return None
        if scale is None or scale.dtype not in DENSE_DTYPES:
            return None
        if scale.shape not in {(), (1,), matrices, (*matrices, 1), (*matrices, 1, 1)}:
            return None
        return StoredMatrix(
            shape=self._shape,
            format="nvfp4",
            codes=self._spec(codes, (*self._shape[:-1], inputs // 2), NVFP4_CODES),
            scale=scale,
            block_scale=self._spec(block_scale.name, (*self._shape[:-1], inputs // NVFP4_GROUP), FP8_CODES),
            divides=ending == "_global_scale",
            unused=self._activation_scales(),
        )

    def _activation_scales(self) -> tuple[TensorSpec, ...]:
        stem = self._name.removesuffix("weight")
        stem = stem if stem != self._name else f"{self._name}_"
        names = [stem + ending for ending in _UNUSED_ENDINGS]
        return tuple(self._regrouped(self._stored[name]) for name in names if name in self._stored)

    def _sibling(self, ending: str) -> TensorSpec | None:
        found = self._stored.get(self._name + ending)
        return None if found is None else self._regrouped(found)

    def _regrouped(self, spec: TensorSpec) -> TensorSpec:
        return msgspec.structs.replace(spec, group=self._group)

    def _spec(self, name: str, shape: tuple[int, ...], dtype: str) -> TensorSpec:
        return TensorSpec(name=name, shape=shape, dtype=dtype, group=self._group)

    def _description(self) -> str:
        endings = ("", "_packed", "_scale_inv", "_scale", "_scale_2", "_global_scale")
        found = [
            (ending, self._stored[self._name + ending]) for ending in endings if self._name + ending in self._stored
        ]
        return ", ".join(f"{ending or 'codes'} {spec.dtype} {list(spec.shape)}" for ending, spec in found)


def encoded_matrix(spec: TensorSpec, weights: WeightsFormat) -> StoredMatrix:
    """How the plain matrix `spec` is stored once it is encoded: fp8 with a scale for each row, nvfp4 with one scale for
    each matrix. A matrix whose inputs are no multiple of 16 stays as it is under nvfp4."""
    shape, inputs = spec.shape, spec.shape[-1]
    if weights == "fp8":
        return StoredMatrix(
            shape=shape,
            format="fp8",
            codes=msgspec.structs.replace(spec, dtype=FP8_CODES),
            scale=_beside(spec, "_scale", (*shape[:-1], 1), "float32"),
        )
    if weights == "nvfp4" and inputs % NVFP4_GROUP == 0:
        return StoredMatrix(
            shape=shape,
            format="nvfp4",
            codes=msgspec.structs.replace(spec, shape=(*shape[:-1], inputs // 2), dtype=NVFP4_CODES),
            scale=_beside(spec, "_scale_2", shape[:-2], "float32"),
            block_scale=_beside(spec, "_scale", (*shape[:-1], inputs // NVFP4_GROUP), FP8_CODES),
        )
    return StoredMatrix(shape=shape, format="dense", codes=spec)


def _beside(spec: TensorSpec, ending: str, shape: tuple[int, ...], dtype: str) -> TensorSpec:
    return TensorSpec(name=spec.name + ending, shape=shape, dtype=dtype, group=spec.group)
