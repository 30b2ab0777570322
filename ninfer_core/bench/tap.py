"""A look at the logits of a program, which otherwise gives tokens only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ninfer_core.api.model import ForwardBatch, Model
from ninfer_core.program.observation import observable

OnLayer = Callable[[int, torch.Tensor], None]


class LogitsTap:
    """A Model that passes everything on to another one and keeps what came back.

    Logits of a captured round live where the graph writes them: keeping the tensor keeps its place from being used
    again, so they can be read after each replay and cost the round nothing.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._captured: dict[int, torch.Tensor] = {}
        self._latest: dict[int, torch.Tensor] = {}
        self._tail_columns = 0
        self._tail: torch.Tensor | None = None
        self._on_layer: OnLayer | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def prefill(self, batch: ForwardBatch) -> torch.Tensor:
        hidden = self._prefill(batch)
        if self._tail_columns:
            parts = [] if self._tail is None else [self._tail]
            self._tail = torch.cat([*parts, hidden[0]])[-self._tail_columns :].clone()
        return hidden

    def _prefill(self, batch: ForwardBatch) -> torch.Tensor:
        if self._on_layer is None:
            return self._model.prefill(batch)
        return observable(self._model).prefill_observed(batch, self._on_layer)

    @contextmanager
    def observed(self, on_layer: OnLayer) -> Iterator[None]:
        """Prefills within the block tell the residual stream after each layer [1, columns, hidden_size], which may be
        changed in place. Raises StartFailed in a prefill of a model that cannot be looked into."""
        self._on_layer = on_layer
        try:
            yield
        finally:
            self._on_layer = None

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        found = self._model.logits(hidden)
        capturing = found.is_cuda and torch.cuda.is_current_stream_capturing()
        (self._captured if capturing else self._latest)[found.shape[0]] = found
        return found

    def watch_prefill(self, columns: int) -> None:
        """Keep the last `columns` of what is prefilled from here on; 0 keeps nothing."""
        self._tail_columns, self._tail = columns, None

    @torch.inference_mode()
    def prefill_logits(self) -> torch.Tensor:
        """Of the columns kept since `watch_prefill`: [columns, vocabulary_rows] float32 on the CPU."""
        assert self._tail is not None, "nothing was watched"
        return self._model.logits(self._tail).float().cpu()

    def round_logits(self, rows: int, columns: int = 1) -> torch.Tensor:
        """Of the first column of each row of the last decode round, which had `rows` rows of `columns`:
        [rows, vocabulary_rows] float32 on the CPU."""
        asked = rows * columns
        found = self._captured.get(asked, self._latest.get(asked))
        assert found is not None, f"a round of {asked} columns"
        return found[:asked:columns].float().cpu()
