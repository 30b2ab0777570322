"""The drafter of DFlash and DFlash2: context out of what the target's layers saw, and one pass over a block.

Of every committed column of the target a context vector is kept, as keys and values of each layer, in the sequence's
rings. A block is the anchor and mask tokens behind it, at the positions they are for; the head's logits at a mask token
are those of the token at its own position (docs/speculation.md, "Block drafters").
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from ninfer_core.api import (
    ArtifactHeader,
    BuildShape,
    Draft,
    DraftableModel,
    DraftColumns,
    DraftSampling,
    Model,
    Rotation,
    WeightSource,
)
from ninfer_core.ops.block_attention import Ring
from ninfer_core.ops.draft_walk import Codebooks, LogitTransform
from ninfer_core.ops.linear import DECODE_ROWS, DenseMatrix
from ninfer_speculative.block.config import Additions, DraftConfig
from ninfer_speculative.block.layers import Block, Context, DraftLayer, Routes, Tensors, select_routes
from ninfer_speculative.block.resident import (
    CONTEXT_NORM,
    FINAL_NORM,
    JOIN,
    PREDECESSORS,
    SELECTOR_STATE,
    SUCCESSORS,
    list_pieces,
)
from ninfer_speculative.block.rings import KEYS, VALUES, list_rings
from ninfer_speculative.block.weights import load_pieces

Choose = Callable[[torch.Tensor, torch.Tensor, DraftColumns, DraftSampling], Draft]
"""Drafts from the hidden states of the mask tokens [rows, drafts, hidden] and their logits [rows, drafts, proposed]."""


class BlockDrafter:
    """Implements `ninfer_core.api.Drafter` for blocks of `shape.decode_columns`."""

    def __init__(
        self, config: DraftConfig, tensors: Tensors, shape: BuildShape, model: DraftableModel, device: torch.device
    ) -> None:
        self._model = model
        self._routes = routes = select_routes(device, shape.kernels)
        self._layers = [DraftLayer(config, tensors, index, routes) for index in range(len(config.layers))]
        self._places = list_rings(config, shape.max_context)
        self._join = DenseMatrix(tensors[JOIN])
        self._context_norm, self._final_norm = tensors[CONTEXT_NORM], tensors[FINAL_NORM]
        self._epsilon, self._embedding_scale = config.norm_epsilon, config.embedding_scale
        pairs = config.head_dim // 2
        frequencies = [config.rope_theta ** (-pair / pairs) for pair in range(pairs)]
        self._frequency = torch.tensor(frequencies, dtype=torch.float32, device=device)
        self._axis = torch.zeros(pairs, dtype=torch.int64, device=device)
        self._row_class = DECODE_ROWS * shape.decode_columns
        self._steps = torch.arange(shape.decode_columns, device=device)
        masks = torch.full((shape.decode_columns - 1,), config.mask_token_id, dtype=torch.int64, device=device)
        self._masks = masks.unsqueeze(0)
        self._choose = (
            likeliest(model, routes)
            if config.additions is None
            else selected(config.additions, tensors, shape, model, routes)
        )

    def ingest(self, columns: DraftColumns) -> None:
        """See `Drafter`."""
        self._keep(columns, row_class=0)

    def propose(self, columns: DraftColumns, sampling: DraftSampling) -> Draft:
        """See `Drafter`."""
        self._keep(columns, self._row_class)
        token_ids = torch.cat((columns.anchors.unsqueeze(1), self._masks.expand(len(columns.anchors), -1)), dim=1)
        rotation = self._rotation(columns.lengths.unsqueeze(1) + self._steps)
        block = Block(rotation, columns.slots, columns.lengths, self._row_class)
        x = self._model.embed(token_ids)
        if self._embedding_scale != 1.0:
            x = x * self._embedding_scale
        for layer, ring in zip(self._layers, self._rings(columns), strict=True):
            x = layer(x, ring, block)
        hidden = self._routes.rms_norm(x[:, 1:], self._final_norm, self._epsilon)
        return self._choose(hidden, self._model.draft_logits(hidden), columns, sampling)

    def _keep(self, columns: DraftColumns, row_class: int) -> None:
        """Take the committed columns into the context of their sequences."""
        joined = self._routes.linear(columns.features.flatten(2), self._join, row_class)
        context = Context(
            vectors=self._routes.rms_norm(joined, self._context_norm, self._epsilon),
            rotation=self._rotation(columns.positions),
            slots=columns.slots,
            first=columns.positions[:, 0],
            counts=columns.counts,
            row_class=row_class,
        )
        for layer, ring in zip(self._layers, self._rings(columns), strict=True):
            layer.store(context, ring)

    def _rings(self, columns: DraftColumns) -> list[Ring]:
        """Of each layer, the ring that is its alone."""
        state = columns.state
        return [
            Ring(*(state[part + each.name][each.place : each.place + 1] for part in (KEYS, VALUES)))
            for each in self._places
        ]

    def _rotation(self, positions: torch.Tensor) -> Rotation:
        """positions [rows, columns]: a drafter's are those of text."""
        return Rotation(*self._routes.rope_angles(positions.expand(3, -1, -1), self._frequency, self._axis))


def build_drafter(
    header: ArtifactHeader,
    config: DraftConfig,
    shape: BuildShape,
    model: Model,
    weights: WeightSource,
    device: torch.device,
) -> BlockDrafter:
    """Load the drafter's weights and put it together with the parts of `model` that it uses."""
    assert isinstance(model, DraftableModel), f"{type(model).__name__} offers drafters nothing"
    tensors = load_pieces(header, list_pieces(config, shape.activation_dtype), weights, device)
    return BlockDrafter(config, tensors, shape, model, device)


def likeliest(model: DraftableModel, routes: Routes) -> Choose:
    """DFlash: at every temperature the likeliest token of each position. Tokens drawn from the positions one by one
    would not go together (docs/speculation.md, "Block drafters")."""

    def choose(hidden: torch.Tensor, logits: torch.Tensor, columns: DraftColumns, sampling: DraftSampling) -> Draft:
        return Draft(routes.likeliest(logits, model.draft_token_ids))

    return choose


def selected(
    additions: Additions, tensors: Tensors, shape: BuildShape, model: DraftableModel, routes: Routes
) -> Choose:
    """DFlash2: one token after the other, by the one before it, drawn where the row is sampled."""
    state = DenseMatrix(tensors[SELECTOR_STATE])
    codebooks = Codebooks(tensors[PREDECESSORS], tensors[SUCCESSORS])
    transform = LogitTransform(additions.multiplier, additions.softcap)
    steps = torch.arange(1, shape.decode_columns, device=state.weight.device)
    row_class = DECODE_ROWS * shape.decode_columns

    def choose(hidden: torch.Tensor, logits: torch.Tensor, columns: DraftColumns, sampling: DraftSampling) -> Draft:
        walked = routes.walk(
            logits,
            model.draft_token_ids,
            routes.linear(hidden, state, row_class),
            codebooks,
            transform,
            columns.anchors,
            columns.lengths.unsqueeze(1) + steps,
            sampling.temperature,
            sampling.seeds,
        )
        return Draft(walked.token_ids, law_ids=walked.law_ids, probabilities=walked.probabilities)

    return choose
