"""A model whose insides are looked at while it runs prompts: the residual stream after every layer, and the logits of
every position. What is seen is handed on at once, so that nothing grows with the prompt."""

from __future__ import annotations

from typing import Protocol

import torch

from ninfer_core.api.errors import StartFailed
from ninfer_core.api.model import ForwardBatch, Model, ObservableModel, RecurrentState

LOGIT_ROWS = 32
"""Positions whose logits are made at a time: 32 MB of float32 for 248,320 words."""


class Observer(Protocol):
    """Is told of a prompt from its first token to its last; tensors are the model's own and not kept."""

    def layer(self, index: int, hidden: torch.Tensor) -> None:
        """hidden [tokens, hidden_size] after layer `index`, from 0, for the tokens of a chunk."""
        ...

    def logits(self, logits: torch.Tensor) -> None:
        """float32 [tokens, vocabulary_rows] for the next tokens of the chunk, in their order."""
        ...


class ObservedModel:
    """Implements `Model` over another one. Without an `observer` it does nothing of its own."""

    def __init__(self, model: ObservableModel) -> None:
        self._model = model
        self.observer: Observer | None = None

    def prefill(self, batch: ForwardBatch) -> torch.Tensor:
        observer = self.observer
        if observer is None:
            return self._model.prefill(batch)
        hidden = self._model.prefill_observed(batch, lambda index, x: observer.layer(index, x[0]))
        for rows in torch.split(hidden[0], LOGIT_ROWS):
            observer.logits(self._model.logits(rows))
        return hidden

    def decode(self, batch: ForwardBatch) -> torch.Tensor:
        return self._model.decode(batch)

    def fold(self, state: RecurrentState) -> None:
        self._model.fold(state)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return self._model.logits(hidden)


def observable(model: Model) -> ObservableModel:
    """`model` itself. Raises StartFailed for one that cannot be looked into."""
    if not isinstance(model, ObservableModel):
        raise StartFailed(f"{type(model).__name__} has no prefill_observed, so that its layers cannot be looked at")
    return model


def observed(model: Model) -> ObservedModel:
    """Raises as `observable` does."""
    return ObservedModel(observable(model))
