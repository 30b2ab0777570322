"""Experts against a loop over tokens and choices in float64."""

from __future__ import annotations

import pytest
import torch

from ninfer_core.ops import moe
from ninfer_core.ops.linear import DECODE_ROWS
from ninfer_core.testing.tolerances import BF16_OPERATION, FP32_OPERATION

EXPERTS, TOP_K, HIDDEN, WIDTH = 8, 3, 32, 16


def _weights(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    router, gate_up = torch.randn(EXPERTS, HIDDEN), torch.randn(EXPERTS, 2 * WIDTH, HIDDEN)
    down = torch.randn(EXPERTS, HIDDEN, WIDTH)
    return router.to(dtype), (gate_up / HIDDEN**0.5).to(dtype), (down / WIDTH**0.5).to(dtype)


def _oracle(x: torch.Tensor, router: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(x.shape, dtype=torch.float64)
    for token in range(x.shape[0]):
        row = x[token].double()
        scores = (router.double() @ row).tolist()
        chosen = sorted(range(EXPERTS), key=lambda expert: (-scores[expert], expert))[:TOP_K]
        share = torch.softmax(torch.tensor([scores[expert] for expert in chosen], dtype=torch.float64), 0)
        for expert, weight in zip(chosen, share, strict=True):
            inner = gate_up[expert].double() @ row
            gate, up = inner[:WIDTH], inner[WIDTH:]
            out[token] += weight * (down[expert].double() @ (gate / (1 + torch.exp(-gate)) * up))
    return out


@pytest.mark.parametrize("run", [moe.decode, moe.prefill])
@pytest.mark.parametrize("tokens", [0, 1, 7, 8, 65])
def test_is_the_weighted_sum_of_the_chosen_experts(run: object, tokens: int) -> None:
    assert callable(run)
    router, gate_up, down = _weights()
    x = torch.randn(tokens, HIDDEN)
    actual = run(x, gate_up, down, moe.route(x, router, TOP_K))
    assert actual.dtype == torch.float32
    FP32_OPERATION.check(actual, _oracle(x, router, gate_up, down))


@pytest.mark.parametrize("run", [moe.decode, moe.prefill])
def test_bfloat16(run: object) -> None:
    assert callable(run)
    router, gate_up, down = _weights(torch.bfloat16)
    x = torch.randn(9, HIDDEN).bfloat16()
    # Routed by float32 scores, so that the test measures the products and not a choice between near equals.
    routing = moe.route(x.float(), router.float(), TOP_K)
    BF16_OPERATION.check(run(x, gate_up, down, routing), _oracle(x, router, gate_up, down))


def test_weights_are_renormalised_and_in_descending_order() -> None:
    router, _, _ = _weights()
    routing = moe.route(torch.randn(20, HIDDEN), router, TOP_K)
    FP32_OPERATION.check(routing.weights.sum(-1), torch.ones(20))
    assert (routing.weights.diff(dim=-1) <= 0).all()


def test_equal_scores_go_to_the_lower_expert() -> None:
    routing = moe.route(torch.randn(5, HIDDEN), torch.zeros(EXPERTS, HIDDEN), TOP_K)
    assert routing.experts.tolist() == [[0, 1, 2]] * 5
    FP32_OPERATION.check(routing.weights, torch.full((5, TOP_K), 1 / TOP_K))


def test_a_token_of_a_round_does_not_depend_on_the_others() -> None:
    router, gate_up, down = _weights()
    x = torch.randn(DECODE_ROWS, HIDDEN)

    def run(part: torch.Tensor) -> torch.Tensor:
        return moe.decode(part, gate_up, down, moe.route(part, router, TOP_K, DECODE_ROWS))

    together = run(x)
    for token in range(DECODE_ROWS):
        assert torch.equal(run(x[token : token + 1])[0], together[token])
    assert torch.equal(run(x.flip(0)).flip(0), together)
