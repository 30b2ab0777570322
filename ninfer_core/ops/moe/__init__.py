"""Mixture of experts: routing, the weighted sum of the chosen experts, and the layer around them.

    probability = softmax_float32(x · routerᵀ)
    chosen      = the top_k largest, equal ones by ascending expert
    weight      = probability[chosen] / Σ probability[chosen]
    y           = Σ weight[e] · swiglu(x · gate_up[e]ᵀ) · down[e]ᵀ

    x                [tokens, hidden]                   activation dtype
    router           [experts, hidden]                  activation dtype
    gate_up          [experts, 2·width, hidden]         a `Matrix`, or a tensor of the activation dtype; gate rows first
    down             [experts, hidden, width]           likewise
    routing.experts  [tokens, top_k]                    int64, by descending weight
    routing.weights  [tokens, top_k]                    float32
    y                [tokens, hidden]                   float32, so that a shared expert is added before rounding

`decode` and `prefill` are the same function of their inputs with other costs: `decode` reads the matrices of each
token's experts for that token alone, so that its numbers do not depend on its batch mates, and needs
`tokens · 3 · width · hidden` elements to do so; `prefill` groups the tokens of an expert. `row_class` is that of
`ops.linear`. Nothing is aliased and nothing else is written.

The layer is what a family calls. With h = norm(x), `select(device, kernels)` gives

    y = residual + routed(h) + sigmoid(h · shared_gateᵀ) · swiglu(h · shared_gate_upᵀ) · shared_downᵀ

    x, residual, y  [..., hidden]        activation dtype; `residual` may be x
    weights         an `ExpertWeights`
    norm            the zero-centred norm of `ops.rms_norm`
    row_class       that of `ops.linear`: 0 for a prefill; a token's numbers in a decode depend on it, but not on how
                    many tokens there are, where a token stands, or what other tokens chose

The sum over experts is float32 in an order that is the token's own, and y is rounded once. Scores of the kernels are
float32; those of the reference are rounded to the activation dtype first, so near equals may be chosen differently.
"""

from __future__ import annotations

from ninfer_core.ops.moe.reference import Routing, decode, feed_forward, prefill, route
from ninfer_core.ops.moe.select import FeedForward, select
from ninfer_core.ops.moe.weights import ExpertWeights

__all__ = ["ExpertWeights", "FeedForward", "Routing", "decode", "feed_forward", "prefill", "route", "select"]
