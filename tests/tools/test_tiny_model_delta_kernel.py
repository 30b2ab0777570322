"""The kernels that train the delta rule compute what the plain form computes, and its gradients."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from tools.tiny_model.delta import chunked_delta

pytest.importorskip("triton")
from tools.tiny_model.delta_kernel import delta


@pytest.mark.parametrize("width", [16, 32])
def test_output_and_gradients(width: int) -> None:
    torch.manual_seed(width)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows, tokens, heads = 1, 3 * width, 2
    shape = (rows, tokens, heads, width)
    # Keys that are alike make the inverse of a chunk matter.
    query, key = functional.normalize(torch.randn(shape), dim=-1), functional.normalize(torch.randn(shape) + 1, dim=-1)
    given = (query, key, torch.randn(shape), -0.3 * torch.rand(shape[:3]), torch.rand(shape[:3]))
    fresh = torch.tensor([[True, False, True]], device=device)
    plain, fused = ([tensor.to(device).requires_grad_() for tensor in map(torch.clone, given)] for _ in range(2))
    wanted, found = chunked_delta(*plain, fresh, width), delta(*fused, fresh, width)
    tolerance = 1e-5 if device == "cpu" else 2e-2  # a GPU multiplies with 10 bits of each factor
    assert torch.allclose(wanted, found, atol=tolerance)
    weights = torch.randn(shape, device=device)
    for tensor, one, other in zip(
        given, torch.autograd.grad((wanted * weights).sum(), plain),
        torch.autograd.grad((found * weights).sum(), fused), strict=True,
    ):  # fmt: skip
        assert one.shape == tensor.shape
        assert (one - other).abs().max() <= tolerance * one.abs().max()
