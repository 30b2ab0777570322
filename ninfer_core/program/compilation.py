"""Compiles, side by side, every Triton kernel that the units of a plan launch.

A kernel is compiled at its first launch, one after the other, a second or more each. Here the units are run once with
launches left out: each only hands its kernel over to be compiled by a pool of threads. What is exactly needed, types,
alignments and constants included, is thereby found by the very code that will launch it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

MOST_THREADS = 16


class _ZerosForEmpty(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Memory that a kernel would have filled has zeros, so that what reads it next finds valid indices."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if func.overloadpacket in _EMPTY:
            made.zero_()
        return made


_EMPTY = (
    torch.ops.aten.empty,
    torch.ops.aten.empty_like,
    torch.ops.aten.empty_strided,
    torch.ops.aten.new_empty,
    torch.ops.aten.new_empty_strided,
)


@contextmanager
def compiling_only() -> Iterator[Callable[[], int]]:
    """Launches of Triton kernels compile them and do nothing else; on exit all are compiled. Torch's own operations
    run as ever, over what kernels have not written: results have no meaning. Yields a function that says how many
    kernels were handed over."""
    from triton.runtime._async_compile import AsyncCompileMode
    from triton.runtime.jit import JITFunction

    launch = JITFunction.run
    seen: set[Hashable] = set()

    def compile_once(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        wanted = (id(kernel), *map(_kind, args), *((name, _kind(value)) for name, value in kwargs.items()))
        if wanted not in seen:
            seen.add(wanted)
            launch(kernel, *args, grid=grid, warmup=True, **kwargs)

    threads = min(MOST_THREADS, os.cpu_count() or 1)
    with ThreadPoolExecutor(threads, thread_name_prefix="ninfer-compile") as pool, AsyncCompileMode(pool):
        JITFunction.run = compile_once
        try:
            with _ZerosForEmpty():  # type: ignore[no-untyped-call]
                yield lambda: len(seen)
        finally:
            JITFunction.run = launch


def _kind(value: Any) -> Hashable:
    """What of an argument can make another kernel: at most as coarse as Triton's own view of it."""
    if isinstance(value, torch.Tensor):
        return (value.dtype, value.data_ptr() % 16 == 0)
    if isinstance(value, bool | str | float) or value is None:
        return value
    if isinstance(value, int):
        return (value, value.bit_length() > 31)
    if isinstance(value, tuple | list):
        return tuple(map(_kind, value))
    return id(value)
