"""Whether the end of a thinking budget would fit into an answer (contract TMPL-14).

The front asks before a request goes to the engine, and the engine asks again: it never begins what it may not finish.
"""

from __future__ import annotations

from ninfer_core.api.errors import RequestError, ThinkingBudgetCapacityInsufficient


def check_thinking_budget(budget: int, *, control_tokens: int, limit: int) -> None:
    """`control_tokens` is the length of the frontend's `thinking_control_ids`, `limit` the effective output limit.

    Raises ThinkingBudgetCapacityInsufficient when the output would end inside these tokens or right behind them, and
    RequestError `thinking_budget_not_supported` for a family that does not say how thinking is closed.
    """
    if budget < 1:
        raise RequestError(f"a thinking budget of {budget} tokens; give at least 1", param="thinking_budget")
    if limit <= budget:
        return  # The output limit comes first, or with the same token (TMPL-11).
    if control_tokens == 0:
        raise RequestError(
            "this model's family does not say how thinking is closed; send no thinking budget",
            code="thinking_budget_not_supported",
            param="thinking_budget",
        )
    if limit < budget + control_tokens + 1:
        raise ThinkingBudgetCapacityInsufficient(budget=budget, control_tokens=control_tokens, limit=limit)
