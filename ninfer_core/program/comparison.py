"""Two programs over one prompt, one after the other: how far their layers and their next tokens are apart.

What the first one did is written to files and read back beside the second one: only one model is in memory, and of what
they did no more than a chunk.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec
import torch

from ninfer_core.api.artifact import ArtifactHeader, WeightSource
from ninfer_core.api.model import Model
from ninfer_core.api.plan import ExecutionPlan
from ninfer_core.plugins.registry import PluginRegistry
from ninfer_core.program.build import build_program, device_of
from ninfer_core.program.contract import OnPhase, RowSetup, Sampling
from ninfer_core.program.observation import ObservedModel, Observer, observed


class LayerDifference(msgspec.Struct, frozen=True, kw_only=True):
    """`relative_error` is |b - a| / |a| over all tokens, `worst_token` the largest of single tokens."""

    layer: int
    relative_error: float
    worst_token: float


class TokenDifference(msgspec.Struct, frozen=True, kw_only=True):
    """Distributions of the next token. Divergences are KL(a || b) in nats; `loss_*` is the mean of -log p of the tokens
    that the prompt goes on with."""

    mean_divergence: float
    percentile_99_divergence: float
    largest_divergence: float
    top_1_agreement: float
    loss_a: float
    loss_b: float


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    tokens: int
    layers: tuple[LayerDifference, ...]
    next_token: TokenDifference


@dataclass(frozen=True, slots=True)
class Subject:
    """A plan with what it runs on. `open_weights` is called once."""

    plan: ExecutionPlan
    header: ArtifactHeader
    open_weights: Callable[[], contextlib.AbstractContextManager[WeightSource]]


def compare(
    first: Subject, second: Subject, registry: PluginRegistry, token_ids: Sequence[int], on_phase: OnPhase
) -> Comparison:
    """Run the prompt through both. Their plans must agree in layers, hidden size and vocabulary, and have room for the
    prompt and one token. Raises the StartupErrors of a start."""
    with tempfile.TemporaryDirectory(prefix="ninfer-compare-") as folder:
        with _Recorder(Path(folder)) as recorder:
            _run(first, registry, token_ids, recorder, lambda name, seconds: on_phase(f"a: {name}", seconds))
        with _Comparer(Path(folder), token_ids, first.plan.token_domain) as comparer:
            _run(second, registry, token_ids, comparer, lambda name, seconds: on_phase(f"b: {name}", seconds))
            return comparer.result()


def _run(
    subject: Subject, registry: PluginRegistry, token_ids: Sequence[int], observer: Observer, on_phase: OnPhase
) -> None:
    plan = subject.plan
    models: list[ObservedModel] = []

    def wrap(model: Model) -> ObservedModel:
        models.append(observed(model))
        return models[0]

    device = device_of(plan)
    with subject.open_weights() as weights:
        program = build_program(plan, subject.header, weights, registry, device, on_phase, wrap)
    row = program.open_row(RowSetup(len(token_ids), len(token_ids) + 1, _GREEDY))
    assert row is not None, "the plan has room for the prompt"
    models[0].observer = observer
    for start in range(0, len(token_ids), plan.capacities.prefill_chunk):
        program.prefill(row, token_ids[start : start + plan.capacities.prefill_chunk], last=False)
    program.close()
    models[0].observer = None
    del program
    models.clear()
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


_GREEDY = Sampling(temperature=0.0, top_p=1.0, top_k=1, min_p=0.0, presence_penalty=0.0, frequency_penalty=0.0, seed=0)


class _Files:
    """One file for each layer and one for the logits, in a folder."""

    def __init__(self, folder: Path, mode: str) -> None:
        self._folder = folder
        self._mode = mode
        self._open = contextlib.ExitStack()
        self._files: dict[str, BinaryIO] = {}

    def file(self, name: str) -> BinaryIO:
        if name not in self._files:
            opened = (self._folder / name).open(self._mode)
            self._files[name] = self._open.enter_context(opened)  # type: ignore[assignment]
        return self._files[name]

    def __enter__(self) -> _Files:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()


class _Recorder:
    """Writes what it is told, in float32."""

    def __init__(self, folder: Path) -> None:
        self._files = _Files(folder, "wb")

    def layer(self, index: int, hidden: torch.Tensor) -> None:
        self._write(f"layer-{index}", hidden)

    def logits(self, logits: torch.Tensor) -> None:
        self._write("logits", logits)

    def _write(self, name: str, tensor: torch.Tensor) -> None:
        host = tensor.detach().float().cpu().contiguous()
        self._files.file(name).write(ctypes.string_at(host.data_ptr(), host.nbytes))

    def __enter__(self) -> _Recorder:
        return self

    def __exit__(self, *error: object) -> None:
        self._files.__exit__(*error)


class _Comparer:
    """Holds what it is told against what was written."""

    def __init__(self, folder: Path, token_ids: Sequence[int], token_domain: int) -> None:
        self._files = _Files(folder, "rb")
        self._token_ids = token_ids
        self._token_domain = token_domain
        self._layers: dict[int, _LayerSums] = {}
        self._divergences: list[torch.Tensor] = []
        self._agreements: list[torch.Tensor] = []
        self._losses: list[torch.Tensor] = []
        self._seen = 0

    def layer(self, index: int, hidden: torch.Tensor) -> None:
        sums = self._layers.setdefault(index, _LayerSums())
        sums.add(self._read(f"layer-{index}", hidden), hidden)

    def logits(self, logits: torch.Tensor) -> None:
        recorded = self._read("logits", logits)
        a, b = (each[:, : self._token_domain].double().log_softmax(-1) for each in (recorded, logits))
        self._divergences.append((a.exp() * (a - b)).sum(-1).cpu())
        self._agreements.append((a.argmax(-1) == b.argmax(-1)).cpu())
        following = torch.tensor(self._token_ids[self._seen + 1 : self._seen + 1 + len(a)], device=a.device)
        chosen = following.view(-1, 1)
        known = len(following)
        self._losses.append(torch.stack([-each[:known].gather(1, chosen).view(-1) for each in (a, b)]).cpu())
        self._seen += len(logits)

    def result(self) -> Comparison:
        divergences = torch.cat(self._divergences).clamp(min=0)
        losses = torch.cat(self._losses, dim=1).mean(dim=1)
        next_token = TokenDifference(
            mean_divergence=float(divergences.mean()),
            percentile_99_divergence=float(divergences.quantile(0.99)),
            largest_divergence=float(divergences.max()),
            top_1_agreement=float(torch.cat(self._agreements).double().mean()),
            loss_a=float(losses[0]),
            loss_b=float(losses[1]),
        )
        layers = tuple(self._layers[index].difference(index) for index in sorted(self._layers))
        return Comparison(tokens=self._seen, layers=layers, next_token=next_token)

    def _read(self, name: str, like: torch.Tensor) -> torch.Tensor:
        """What was written for the same tokens, on the device of `like`."""
        size = 4 * like.numel()
        raw = bytearray(self._files.file(name).read(size))
        assert len(raw) == size, f"{name} was written for other tokens"
        return torch.frombuffer(raw, dtype=torch.float32).view(like.shape).to(like.device)

    def __enter__(self) -> _Comparer:
        return self

    def __exit__(self, *error: object) -> None:
        self._files.__exit__(*error)


class _LayerSums:
    """Sums of squares over the tokens of one layer."""

    def __init__(self) -> None:
        self._squares: list[torch.Tensor] = []

    def add(self, a: torch.Tensor, b: torch.Tensor) -> None:
        """[tokens, hidden_size] each."""
        difference = (b.double() - a.double()).square().sum(-1)
        self._squares.append(torch.stack([difference, a.double().square().sum(-1)]).cpu())

    def difference(self, layer: int) -> LayerDifference:
        differences, sizes = torch.cat(self._squares, dim=1)
        return LayerDifference(
            layer=layer,
            relative_error=_ratio(differences.sum(), sizes.sum()),
            worst_token=max(_ratio(*pair) for pair in zip(differences, sizes, strict=True)),
        )


def _ratio(difference: torch.Tensor, size: torch.Tensor) -> float:
    """Root of a quotient of squares; 0 where both are 0."""
    return float((difference / size).sqrt()) if float(difference) else 0.0
