"""Choice of the next token from logits (docs/engine.md, "Choice of a token"), and the penalty counters it reads.

For one row, over token ids [0, token_domain) only:

    temperature <= 0:  the lowest id of the largest logit; no penalties, no filters, no random number
    otherwise:
      adjusted[t] = logit[t] − presence · [count[t] > 0] − frequency · count[t]
      candidates  = the top_k largest adjusted (1 <= top_k <= CANDIDATES), equal ones in order of their id
      weight[i]   = exp((adjusted[i] − adjusted[0]) / temperature)
      min_p       keeps i where weight[i] >= min_p · weight[0]
      top_p       keeps i where Σ weight[< i] < top_p · Σ weight: the shortest prefix that reaches top_p of what all
                  candidates weigh before anything is dropped
      both are applied, the first candidate always stays, and one is drawn in proportion to weight by
      `uniform(seed, position, purpose)`

    logits        [rows, vocabulary_rows]      float32
    counts        [slots, vocabulary_rows]     int32: how often each token was selected in the slot's request
    slots         [rows]                       int64: the row's place in `counts`
    positions     [rows]                       int64: index in the sequence of the token that is chosen
    parameters    `SamplerRows`, tensors of length rows
    token         [rows]                       int64

`uniform` is a pure function of its three integers, with the same bits on every device: the stream of a request does
not depend on its batch mates, on how often it was preempted, or on where it runs. `purpose` keeps the draws of one
position apart. Weights are taken in float64, so that devices agree on what is dropped.

`count_tokens` adds the first `accepted[row]` of the row's tokens to its counters, except in greedy rows, which never
count: a part of `ops.round_start`, whose kernel does it on a device. `sample` writes nothing.

`select(device, kernels)` gives a `Sampler`: `sample` over `ChosenRows`, whose settings lie by slot, with the tokens
also written where the program keeps the candidates of a slot. Its routes give the same tokens for the same logits.
"""

from __future__ import annotations

from ninfer_core.ops.sample.random import Purpose, uniform
from ninfer_core.ops.sample.reference import (
    CANDIDATES,
    SamplerRows,
    TokenLaw,
    choose,
    count_tokens,
    draw,
    largest,
    sample,
    token_law,
)
from ninfer_core.ops.sample.select import ReferenceSampler, Sampler, select
from ninfer_core.ops.sample.table import ChosenRows, SamplerTable

__all__ = [
    "CANDIDATES",
    "ChosenRows",
    "Purpose",
    "ReferenceSampler",
    "Sampler",
    "SamplerRows",
    "SamplerTable",
    "TokenLaw",
    "choose",
    "count_tokens",
    "draw",
    "largest",
    "sample",
    "select",
    "token_law",
    "uniform",
]
