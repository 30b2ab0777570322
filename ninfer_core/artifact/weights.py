"""Weight bytes of files, handed out as tensors. Torch is imported on the first read."""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from ninfer_core.api.artifact import WeightSource
from ninfer_core.api.errors import ArtifactInvalid
from ninfer_core.artifact.read_ahead import PinnedStaging, ReadAhead
from ninfer_core.artifact.safetensors_file import StoredTensor, open_unchanged
from ninfer_core.artifact.wording import quoted
from ninfer_core.plugins.suggest import suggestion

if TYPE_CHECKING:
    import torch

# Private and writable, because torch warns of memory it could not write to; nothing writes, so no page is ever
# copied. Without MAP_NORESERVE (0x4000 on x86 and ARM; Python names it from 3.13) Linux refuses such a map when
# the file is larger than memory.
_FLAGS = mmap.MAP_PRIVATE | (0x4000 if sys.platform == "linux" else 0)
_PROTECTION = mmap.PROT_READ | mmap.PROT_WRITE


class OpenWeights(WeightSource, Protocol):
    """A weight source with an end. Tensors already read belong to their readers and outlive it."""

    def close(self) -> None:
        """Give back maps and descriptors; reading afterwards is a mistake of the caller. May be called twice."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class FileWeights:
    """The tensors of safetensors files. For a CUDA device they are read ahead, in the order that is expected; whatever
    else is read comes from a map of its file. For one thread."""

    def __init__(self, source: str, tensors: Mapping[str, StoredTensor]) -> None:
        self._source = source
        self._tensors = tensors
        self._expected: list[StoredTensor] = []
        self._ahead: ReadAhead | None = None
        self._maps: dict[Path, mmap.mmap] = {}
        self._closed = False

    def expect(self, names: Iterable[str]) -> None:
        """See the Protocol. Nothing is read before something is asked for. On the CPU the system reads ahead by
        itself."""
        self._end_reading_ahead()
        self._expected = [self._tensors[name] for name in names if name in self._tensors]

    def read(self, name: str, device: torch.device) -> torch.Tensor:
        """A new tensor on `device`; the caller owns it.

        Raises ArtifactInvalid for a name the artifact does not have and for a file that has changed its size.
        """
        import torch

        spec = self._stored(name).spec
        made = torch.empty(spec.shape, dtype=getattr(torch, spec.dtype), device=device)
        self.read_into(name, made.view(-1))
        return made

    def read_into(self, name: str, out: torch.Tensor, start: int = 0) -> None:
        """See the Protocol. Raises as `read` does."""
        import torch

        assert not self._closed, "read after close"
        stored = self._stored(name)
        if not out.numel():
            return
        # As bytes, since a file need not align its tensors.
        as_bytes = out.view(-1).view(torch.uint8)
        if out.is_cuda and self._read_ahead(name, as_bytes, start * out.element_size()):
            return
        begin = stored.begin + start * out.element_size()
        mapped = memoryview(self._map(stored))[begin : begin + out.numel() * out.element_size()]
        as_bytes.copy_(torch.frombuffer(mapped, dtype=torch.uint8))

    def _read_ahead(self, name: str, out: torch.Tensor, start: int) -> bool:
        if self._ahead is None and self._expected:
            self._ahead = ReadAhead(self._expected, PinnedStaging())
        return self._ahead is not None and self._ahead.copy(name, out, start)

    def _end_reading_ahead(self) -> None:
        if self._ahead is not None:
            self._ahead.close()
        self._ahead, self._expected = None, []

    def _stored(self, name: str) -> StoredTensor:
        stored = self._tensors.get(name)
        if stored is None:
            message = f"it has no tensor {quoted(name)}{suggestion(name, self._tensors)}"
            raise ArtifactInvalid(self._source, [message])
        return stored

    def close(self) -> None:
        self._end_reading_ahead()
        while self._maps:
            self._maps.popitem()[1].close()
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _map(self, stored: StoredTensor) -> mmap.mmap:
        if stored.path not in self._maps:
            self._maps[stored.path] = _mapped(stored)
        return self._maps[stored.path]


def _mapped(stored: StoredTensor) -> mmap.mmap:
    descriptor = open_unchanged(stored)
    try:
        return mmap.mmap(descriptor, stored.file_bytes, flags=_FLAGS, prot=_PROTECTION)
    except OSError as error:
        raise ArtifactInvalid(str(stored.path), [f"it cannot be mapped: {error.strerror or error}"]) from None
    finally:
        os.close(descriptor)
