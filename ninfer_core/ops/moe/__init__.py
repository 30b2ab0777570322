"""Mixture of experts: routing, and the weighted sum of the chosen experts.

    probability = softmax_float32(x · routerᵀ)
    chosen      = the top_k largest, equal ones by ascending expert
    weight      = probability[chosen] / Σ probability[chosen]
    y           = Σ weight[e] · swiglu(x · gate_up[e]ᵀ) · down[e]ᵀ

    x                [tokens, hidden]                   activation dtype
    router           [experts, hidden]                  activation dtype
    gate_up          [experts, 2·width, hidden]         activation dtype, gate rows first
    down             [experts, hidden, width]           activation dtype
    routing.experts  [tokens, top_k]                    int64, by descending weight
    routing.weights  [tokens, top_k]                    float32
    y                [tokens, hidden]                   float32, so that a shared expert is added before rounding

`decode` and `prefill` are the same function of their inputs with other costs: `decode` reads the matrices of each
token's experts for that token alone, so that its numbers do not depend on its batch mates, and needs
`tokens · 3 · width · hidden` elements to do so; `prefill` groups the tokens of an expert. `row_class` is that of
`ops.linear`. Nothing is aliased and nothing else is written.
"""

from __future__ import annotations

from ninfer_core.ops.moe.reference import Routing, decode, prefill, route

__all__ = ["Routing", "decode", "prefill", "route"]
