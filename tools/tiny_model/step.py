"""One training step: forward, backward, clipping and both optimizers, recorded once and replayed on a GPU.

The network is so small that launching its few thousand kernels takes longer than running them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from tools.tiny_model.encode import IGNORED, Rows
from tools.tiny_model.model import TinyModel
from tools.tiny_model.optimizer import Optimizer

# Compilation, autotuning and optimizer state must be done before recording.
PLAIN_STEPS = 3
# More of a batch than is ever learned, but for rare batches that lose their last labels.
LEARNED_SHARE = 0.5


Arrays = Sequence[NDArray[np.integer]]


@dataclass(slots=True)
class Recording:
    """One shape of batch: its fixed tensors, and the graph once it is recorded."""

    batch: tuple[Tensor, ...]
    plain_left: int
    graph: torch.cuda.CUDAGraph | None = None


class TrainingStep:
    """`arrays` makes the inputs of `loss` from a batch, `trained` is what the optimizer changes."""

    def __init__(
        self, trained: nn.Module, optimizer: Optimizer, loss: Callable[..., Tensor], arrays: Callable[[Rows], Arrays],
        *, graph: bool,
    ) -> None:  # fmt: skip
        self.trained, self.optimizer, self.loss_of, self.arrays = trained, optimizer, loss, arrays
        self.device = next(trained.parameters()).device
        self.share = torch.zeros((), device=self.device)
        self.loss = torch.zeros((), device=self.device)
        self.graph = graph
        self.recordings: dict[tuple[int, ...], Recording] = {}
        # Recording needs a stream of its own, and gradients remember the stream they were made on.
        self.stream = torch.cuda.Stream() if graph else None

    def __call__(self, rows: Rows, share: float) -> Tensor:
        """The loss on this batch, still on the device."""
        with torch.cuda.stream(self.stream):
            recording = self._load(rows)
            self.share.fill_(share)
            if recording.plain_left == 0 and recording.graph is None:
                recording.graph = self._record(recording)
            if recording.graph is None:
                recording.plain_left -= 1
                self._forget_gradients()
                self._work(recording)
            else:
                recording.graph.replay()
            loss = self.loss.clone()
        if self.stream:
            # Whoever reads the loss or the weights next does so on the usual stream.
            torch.cuda.current_stream().wait_stream(self.stream)
        return loss

    def _work(self, recording: Recording) -> None:
        # The cache of cast weights would keep those of the recording alive.
        with torch.autocast(self.device.type, dtype=torch.bfloat16, cache_enabled=False):
            loss = self.loss_of(*recording.batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.trained.parameters(), 1.0)
        self.optimizer.step(self.share)
        self.loss.copy_(loss.detach())

    def _record(self, recording: Recording) -> torch.cuda.CUDAGraph:
        # Gradients made while recording are written, not added to, at every replay.
        self._forget_gradients()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            self._work(recording)
        return graph

    def _forget_gradients(self) -> None:
        for weight in self.trained.parameters():
            weight.grad = None

    def _load(self, rows: Rows) -> Recording:
        """Into the same tensors each time: a recorded graph reads fixed addresses."""
        arrays = [torch.from_numpy(array) for array in self.arrays(rows)]
        if self.device.type == "cuda":
            arrays = [array.pin_memory() for array in arrays]
        shape = rows.tokens.shape
        if shape not in self.recordings:
            batch = tuple(torch.zeros(array.shape, dtype=torch.long, device=self.device) for array in arrays)
            self.recordings[shape] = Recording(batch, PLAIN_STEPS if self.graph else -1)
        for place, array in zip(self.recordings[shape].batch, arrays, strict=True):
            place.copy_(array.to(self.device, non_blocking=True))
        return self.recordings[shape]


def target_arrays(rows: Rows) -> Arrays:
    return rows.tokens, rows.positions, *learned_places(rows)


def learned_places(rows: Rows) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """(flat places of learned labels, those labels), filled up with others to a count that depends on the shape alone.

    The head is the largest product of a step, and most tokens are not learned.
    """
    labels = rows.labels.reshape(-1).astype(np.int32)
    capacity = int(labels.size * (LEARNED_SHARE if rows.tokens.shape[1] <= 1024 else LEARNED_SHARE / 4))
    # Learned places first, each place once: adding many gradients to one place would take its time.
    places = np.argsort(labels == IGNORED, kind="stable")[:capacity].astype(np.int32)
    return places, labels[places]


def batch_loss(
    model: TinyModel, tokens: Tensor, positions: Tensor, places: Tensor, labels: Tensor, chunk: int
) -> Tensor:
    logits = model.logits(model.hidden(tokens, positions, chunk).index_select(0, places))
    return F.cross_entropy(logits.float(), labels, ignore_index=IGNORED)
