"""How much the tensors of a piece of work take at once, on any device: what byte ledgers are held to."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of storages that operations make while it is active, as long as they live.

    `peak_bytes` is the most that was alive at once. What a library allocates within one operation is not seen.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak_bytes: int = 0
        self._live_bytes = 0
        self._known: dict[int, weakref.finalize[Any, Any]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        # Not by their addresses: storages without memory have all the same.
        given = {leaf.untyped_storage()._cdata for leaf in tree_leaves((args, kwargs)) if _is_tensor(leaf)}
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if _is_tensor(leaf) and leaf.untyped_storage()._cdata not in given:
                self._add(leaf.untyped_storage())
        return result

    def _add(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key in self._known:
            return
        size = storage.nbytes()
        self._live_bytes += size
        self.peak_bytes = max(self.peak_bytes, self._live_bytes)
        self._known[key] = weakref.finalize(storage, self._drop, key, size)

    def _drop(self, key: int, size: int) -> None:
        self._live_bytes -= size
        del self._known[key]


def peak_bytes(work: Callable[[], object]) -> int:
    """The most bytes of new tensors that were alive at once while `work` ran, its result included."""
    counter = LiveBytes()
    with torch.inference_mode(), counter:
        work()
    return counter.peak_bytes


def _is_tensor(leaf: object) -> bool:
    return isinstance(leaf, torch.Tensor)
