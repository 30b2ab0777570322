"""The laws of dummy weights: random, but such that a deep model neither dies out nor overflows.

The table knows the tensors of the Qwen hybrid family by the ends of their names. A family with other names gets
the defaults: matrices as there, vectors near zero.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ninfer_core.api.artifact import TensorSpec

if TYPE_CHECKING:
    import torch

_CHUNK_ELEMENTS = 4 * 1024 * 1024
"""16 MiB of float32: all that making a tensor of any size needs besides the tensor."""


class Normal(NamedTuple):
    mean: float
    standard_deviation: float


class Uniform(NamedTuple):
    low: float
    high: float


Law = Normal | Uniform

LAWS: Sequence[tuple[str, Law]] = (
    # The plain weight of the gated norm and those of layer norms scale directly: around 1.
    ("linear_attn.norm.weight", Normal(1.0, 0.1)),
    ("norm1.weight", Normal(1.0, 0.1)),
    ("norm2.weight", Normal(1.0, 0.1)),
    ("merger.norm.weight", Normal(1.0, 0.1)),
    # Four taps that together keep the scale of their input.
    ("conv1d.weight", Normal(0.0, 0.5)),
    # Decay rates exp(A_log) from 1 to 16, time steps softplus(dt_bias) from 0.001 to 0.1: Mamba's initial ranges.
    ("A_log", Uniform(0.0, math.log(16.0))),
    ("dt_bias", Uniform(math.log(math.expm1(0.001)), math.log(math.expm1(0.1)))),
)
"""Law by the end of the tensor's name; the first that fits holds."""

MATRIX = Normal(0.0, 0.02)
"""Default for two axes and more: the family's initializer_range."""

VECTOR = Normal(0.0, 0.05)
"""Default for one axis: zero-centred norm weights (used as 1 + w) and biases."""


def law_of(spec: TensorSpec) -> Law:
    """The first law whose ending is made of whole parts of the name, else the default for the number of axes."""
    for ending, law in LAWS:
        if spec.name == ending or spec.name.endswith("." + ending):
            return law
    return MATRIX if len(spec.shape) > 1 else VECTOR


def fill(out: torch.Tensor, spec: TensorSpec, seed: int, start: int = 0) -> None:
    """Overwrite contiguous `out` with the elements of `spec` from `start` on, row-major: numbers that depend on (seed,
    name, place in the tensor, kind of device) alone.

    Drawn in float32 and rounded once: the CPU's bfloat16 normal can draw the logarithm of zero. Wide integers
    are lists of ids and count from 0; narrow ones (no family has them as weights today) become zero.
    """
    import torch

    if out.dtype in (torch.int32, torch.int64):
        torch.arange(start, start + out.numel(), out=out.view(-1))
        return
    if not out.dtype.is_floating_point:
        out.zero_()
        return
    law, flat = law_of(spec), out.view(-1)
    stop = start + flat.numel()
    scratch = torch.empty(min(spec.elements, _CHUNK_ELEMENTS), dtype=torch.float32, device=out.device)
    generator = torch.Generator(device=out.device)
    for chunk in range(start // _CHUNK_ELEMENTS, -(-stop // _CHUNK_ELEMENTS)):
        begin = chunk * _CHUNK_ELEMENTS
        drawn = scratch[: min(spec.elements - begin, _CHUNK_ELEMENTS)]
        generator.manual_seed(_chunk_seed(seed, spec.name, chunk))
        _draw(law, drawn, generator)
        first, last = max(start, begin), min(stop, begin + drawn.numel())
        flat[first - start : last - start].copy_(drawn[first - begin : last - begin])


def _chunk_seed(seed: int, name: str, chunk: int) -> int:
    place = f"{seed}:{name}" if chunk == 0 else f"{seed}:{name}:{chunk}"
    return int.from_bytes(hashlib.sha256(place.encode()).digest()[:8], "little") >> 1


def _draw(law: Law, drawn: torch.Tensor, generator: torch.Generator) -> None:
    if isinstance(law, Uniform):
        drawn.uniform_(law.low, law.high, generator=generator)
    else:
        drawn.normal_(law.mean, law.standard_deviation, generator=generator)
