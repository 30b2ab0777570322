"""The routes of a CUDA device without one: what they allocate can be counted anywhere, at any size."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch


@contextmanager
def unlaunched() -> Iterator[torch.device]:
    """Yields a device whose tensors have no memory and pass for those of a CUDA device; launches of Triton kernels,
    interpreted ones too, do nothing. Results have shapes and dtypes and no values."""
    from triton.runtime.interpreter import InterpretedFunction
    from triton.runtime.jit import JITFunction

    def launcher(kernel: Any, grid: Any) -> Any:
        return lambda *arguments, **options: None

    on_cuda = property(lambda tensor: tensor.device.type == "meta")
    with (
        patch.object(torch.Tensor, "is_cuda", on_cuda),
        patch.object(JITFunction, "__getitem__", launcher),
        patch.object(InterpretedFunction, "__getitem__", launcher),
    ):
        yield torch.device("meta")
