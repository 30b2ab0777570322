"""Weights that are no numbers: a model with one NaN answers with rows of one character, and says nothing else of it.

What is looked at is every float tensor as it is stored: an infinity and a NaN of the plain dtypes, the one NaN of
fp8 (e4m3fn has no infinities). Codes of four bits are always numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ninfer_core.api.artifact import DTYPE_BYTES, TensorSpec, WeightSource
from ninfer_core.api.errors import ArtifactInvalid, StartFailed
from ninfer_core.artifact.wording import bounded, quoted

if TYPE_CHECKING:
    import torch

FLOAT_DTYPES = frozenset({"float32", "float16", "bfloat16", "float8_e4m3fn"})
"""Those of an artifact's dtypes that can hold something that is no number."""

_PIECE_ELEMENTS = 1 << 28
"""At a time: well within what one reduction indexes with 32 bits."""


def all_finite(values: torch.Tensor) -> torch.Tensor:
    """A truth value [] on the device of `values`, without waiting for it and without temporaries of their size."""
    import torch

    pieces = torch.split(values.view(-1), _PIECE_ELEMENTS)
    if values.dtype == torch.float8_e4m3fn:
        # 0x7F is the largest of signed bytes, 0xFF the largest of unsigned ones.
        signed = [piece.view(torch.int8).amax() != 0x7F for piece in pieces]
        return torch.stack([*signed, *(piece.view(torch.uint8).amax() != 0xFF for piece in pieces)]).all()
    # Both ends of a range with a NaN in it are NaN.
    return torch.stack([torch.isfinite(torch.stack(torch.aminmax(piece))).all() for piece in pieces]).all()


def count_nonfinite(values: torch.Tensor) -> int:
    """How many elements are infinite or NaN."""
    import torch

    return sum(int((~piece.float().isfinite()).sum()) for piece in torch.split(values.view(-1), 1 << 24))


def nonfinite_problem(name: str, count: int, elements: int) -> str:
    """One line of ArtifactInvalid."""
    return (
        f"{quoted(name)} holds {count} values of {elements} that are NaN or infinite, and no answer comes of those; "
        "get the file again, or make the checkpoint anew"
    )


def finite_pieces(source: str, spec: TensorSpec, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """`pieces` of the tensor's bytes as they are. Raises ArtifactInvalid after the last of them where some of its
    values are no numbers."""
    import torch

    if spec.dtype not in FLOAT_DTYPES:
        yield from pieces
        return
    count, rest, size = 0, b"", DTYPE_BYTES[spec.dtype]
    for piece in pieces:
        data = bytearray(rest + piece)
        whole = len(data) // size
        if whole:
            values = torch.frombuffer(data, dtype=getattr(torch, spec.dtype), count=whole)
            count += 0 if all_finite(values) else count_nonfinite(values)
        rest = bytes(data[whole * size :])
        yield piece
    if count:
        raise ArtifactInvalid(source, [nonfinite_problem(spec.name, count, spec.elements)])


class FiniteWeights:
    """`weights`, each looked at on the device that it is read to, while the next one comes."""

    def __init__(self, source: str, weights: WeightSource) -> None:
        self._source = source
        self._weights = weights
        self._finite: torch.Tensor | None = None
        self._read: dict[str, None] = {}

    def expect(self, names: Iterable[str]) -> None:
        """See the Protocol."""
        self._weights.expect(names)

    def read(self, name: str, device: torch.device) -> torch.Tensor:
        """See the Protocol."""
        made = self._weights.read(name, device)
        self._look_at(name, made)
        return made

    def read_into(self, name: str, out: torch.Tensor, start: int = 0) -> None:
        """See the Protocol."""
        self._weights.read_into(name, out, start)
        self._look_at(name, out)

    def check(self) -> None:
        """Wait for the device. Raises ArtifactInvalid with every tensor read so far that has values which are no
        numbers, and how many; those are read again for it. Raises StartFailed where they are numbers then."""
        import torch

        if self._finite is None or bool(self._finite):
            return
        problems = []
        for name in self._read:
            values = self._weights.read(name, torch.device("cpu"))
            if count := count_nonfinite(values):
                problems.append(nonfinite_problem(name, count, values.numel()))
        if not problems:
            raise StartFailed(
                f"weights of {self._source} were NaN or infinite on the device, and none are when they are read again: "
                "start again, and have the device's memory checked where that comes back"
            )
        raise ArtifactInvalid(self._source, bounded(problems))

    def _look_at(self, name: str, values: torch.Tensor) -> None:
        if not values.numel() or str(values.dtype).removeprefix("torch.") not in FLOAT_DTYPES:
            return
        self._read[name] = None
        finite = all_finite(values)
        self._finite = finite if self._finite is None else self._finite.logical_and_(finite)
