"""One training step: forward, backward, clipping and both optimizers, recorded once and replayed on a GPU.

The network is so small that launching its few thousand kernels takes longer than running them.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tools.tiny_model.encode import IGNORED, Rows
from tools.tiny_model.model import TinyModel
from tools.tiny_model.optimizer import Optimizer

# Compilation, autotuning and optimizer state must be done before recording.
PLAIN_STEPS = 5


class TrainingStep:
    def __init__(self, model: TinyModel, optimizer: Optimizer, *, chunk: int, graph: bool) -> None:
        self.model, self.optimizer, self.chunk = model, optimizer, chunk
        self.device = model.model.embed_tokens.weight.device
        self.share = torch.zeros((), device=self.device)
        self.batch: tuple[Tensor, ...] = ()
        self.loss = torch.zeros((), device=self.device)
        self.plain_left = PLAIN_STEPS if graph else -1
        self.graph: torch.cuda.CUDAGraph | None = None
        # Recording needs a stream of its own, and gradients remember the stream they were made on.
        self.stream = torch.cuda.Stream() if graph else None

    def __call__(self, rows: Rows, share: float) -> Tensor:
        """The loss on this batch, still on the device."""
        with torch.cuda.stream(self.stream):
            self._load(rows)
            self.share.fill_(share)
            if self.plain_left == 0 and self.graph is None:
                self.graph = self._record()
            if self.graph is None:
                self.plain_left -= 1
                self._forget_gradients()
                self._work()
            else:
                self.graph.replay()
            loss = self.loss.clone()
        if self.stream:
            # Whoever reads the loss or the weights next does so on the usual stream.
            torch.cuda.current_stream().wait_stream(self.stream)
        return loss

    def _work(self) -> None:
        # The cache of cast weights would keep those of the recording alive.
        with torch.autocast(self.device.type, dtype=torch.bfloat16, cache_enabled=False):
            tokens, labels, positions = self.batch
            loss = batch_loss(self.model, tokens, labels, positions, self.chunk)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step(self.share)
        self.loss.copy_(loss.detach())

    def _record(self) -> torch.cuda.CUDAGraph:
        # Gradients made while recording are written, not added to, at every replay.
        self._forget_gradients()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            self._work()
        return graph

    def _forget_gradients(self) -> None:
        for weight in self.model.parameters():
            weight.grad = None

    def _load(self, rows: Rows) -> None:
        """Into the same tensors each time: a recorded graph reads fixed addresses."""
        arrays = [torch.from_numpy(array) for array in (rows.tokens, rows.labels, rows.positions)]
        if self.device.type == "cuda":
            arrays = [array.pin_memory() for array in arrays]
        if not self.batch:
            self.batch = tuple(torch.zeros(array.shape, dtype=torch.long, device=self.device) for array in arrays)
        for place, array in zip(self.batch, arrays, strict=True):
            place.copy_(array.to(self.device, non_blocking=True))


def batch_loss(model: TinyModel, tokens: Tensor, labels: Tensor, positions: Tensor, chunk: int) -> Tensor:
    logits = model(tokens, positions, chunk)
    return F.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), ignore_index=IGNORED)
