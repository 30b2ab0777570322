"""Reads files ahead of who needs them, in the order announced: disk, host memory and device work at the same time.

Threads read pieces of the files into a ring of staging buffers; the reader copies from them to its device without
waiting, and a buffer is read into again once the device has taken its content. The ring bounds what is in flight.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ninfer_core.api.errors import ArtifactInvalid
from ninfer_core.artifact.safetensors_file import StoredTensor, open_unchanged
from ninfer_core.artifact.wording import quoted

if TYPE_CHECKING:
    import torch

PIECE_BYTES = 16 * 1024 * 1024
BUFFERS = 24
"""384 MiB of pinned memory while weights are read."""
THREADS = 8
"""One thread copies some 5 GB/s out of the system's cache; a PCIe 5 device takes ten times that."""


class Taken(Protocol):
    """A mark behind the copies that were issued before it."""

    def synchronize(self) -> None:
        """Wait until they are done."""
        ...


class Staging(Protocol):
    """Where pieces are on their way."""

    def buffer(self, size: int) -> torch.Tensor:
        """uint8 [size] on the host."""
        ...

    def mark(self) -> Taken: ...

    def end(self) -> None:
        """The buffers are not used any more, once the copies that were issued are done."""
        ...


class PinnedStaging:
    """Pinned memory, from which a CUDA device copies by itself."""

    def buffer(self, size: int) -> torch.Tensor:
        import torch

        return torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def mark(self) -> Taken:
        import torch

        event: torch.cuda.Event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record()
        return event

    def end(self) -> None:
        import torch

        torch.cuda.current_stream().synchronize()
        # Newer than the oldest torch that we run on: there the buffers stay pinned for whoever wants some next.
        give_back = getattr(torch.accelerator, "empty_host_cache", None)
        if give_back is not None:
            give_back()


@dataclass(frozen=True, slots=True)
class _Piece:
    """`size` bytes of a tensor, from its byte `start` on."""

    tensor: StoredTensor
    start: int
    size: int


class ReadAhead:
    """The tensors of `order`, one after the other. For one reader; its threads end with `close`."""

    def __init__(self, order: Sequence[StoredTensor], staging: Staging) -> None:
        self._staging = staging
        self._pieces = [piece for tensor in order for piece in _pieces(tensor)]
        self._buffer_bytes = max((piece.size for piece in self._pieces), default=0)
        self._first: dict[str, int] = {}
        for index, piece in enumerate(self._pieces):
            self._first.setdefault(piece.tensor.spec.name, index)
        self._descriptors: dict[Path, int] = {}
        self._changed = threading.Condition()
        self._free: deque[tuple[torch.Tensor, Taken | None]] = deque()
        self._to_make = min(BUFFERS, len(self._pieces))
        """Buffers that there may still be: made by the threads when they want one, since the system takes as long to
        pin one as to read into it."""
        self._ready: dict[int, torch.Tensor | Exception] = {}
        self._next = 0
        """The piece that will be read next."""
        self._current = 0
        self._taken_bytes = 0
        """How much of the current piece has been copied."""
        self._stopped = False
        self._threads: list[threading.Thread] = []
        self._start()

    def copy(self, name: str, out: torch.Tensor, start: int) -> bool:
        """Bytes of a tensor from `start` on into `out` uint8 [n]; False when they do not come next, and are left to the
        caller. Raises ArtifactInvalid when a file cannot be read."""
        if not self._is_next(name, start):
            return False
        done = 0
        while done < out.numel():
            buffer, piece = self._wait(), self._pieces[self._current]
            size = min(piece.size - self._taken_bytes, out.numel() - done)
            content = buffer[self._taken_bytes : self._taken_bytes + size]
            out[done : done + size].copy_(content, non_blocking=True)
            done += size
            self._taken_bytes += size
            if self._taken_bytes == piece.size:
                self._release(buffer)
        return True

    def close(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        if self._free or self._ready:
            self._free.clear()
            self._ready.clear()
            self._staging.end()
        while self._descriptors:
            os.close(self._descriptors.popitem()[1])

    def _start(self) -> None:
        try:
            for piece in self._pieces:
                tensor = piece.tensor
                if tensor.path not in self._descriptors:
                    self._descriptors[tensor.path] = open_unchanged(tensor)
        except BaseException:
            self.close()
            raise
        for number in range(min(THREADS, len(self._pieces))):
            thread = threading.Thread(target=self._run, name=f"ninfer-read-ahead-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _is_next(self, name: str, start: int) -> bool:
        """Whether the bytes come next, after pieces that nobody has asked for."""
        first = self._first.get(name)
        if first is None:
            return False
        if start == 0 and first > self._current:
            while self._current < first:
                self._release(self._wait())
        if self._current == len(self._pieces):
            return False
        piece = self._pieces[self._current]
        return piece.tensor.spec.name == name and piece.start + self._taken_bytes == start

    def _wait(self) -> torch.Tensor:
        with self._changed:
            while self._current not in self._ready:
                self._changed.wait()
            found = self._ready[self._current]
        if isinstance(found, Exception):
            raise found
        return found

    def _release(self, buffer: torch.Tensor) -> None:
        mark = self._staging.mark()
        with self._changed:
            del self._ready[self._current]
            self._current += 1
            self._taken_bytes = 0
            self._free.append((buffer, mark))
            self._changed.notify_all()

    def _run(self) -> None:
        while (work := self._take_work()) is not None:
            index, free = work
            result: torch.Tensor | Exception
            try:
                buffer, mark = free or (self._staging.buffer(self._buffer_bytes), None)
                if mark is not None:
                    mark.synchronize()
                self._fill(self._pieces[index], buffer)
                result = buffer
            except Exception as error:
                result = error
            with self._changed:
                self._ready[index] = result
                self._changed.notify_all()

    def _take_work(self) -> tuple[int, tuple[torch.Tensor, Taken | None] | None] | None:
        """The next piece and a buffer for it, or None for one that is to be made. Buffers go to pieces in their order,
        so that the reader never waits for a piece behind those that hold all buffers."""
        with self._changed:
            while not self._stopped and self._next < len(self._pieces):
                if self._free or self._to_make:
                    self._next += 1
                    if self._free:
                        return self._next - 1, self._free.popleft()
                    self._to_make -= 1
                    return self._next - 1, None
                self._changed.wait()
            return None

    def _fill(self, piece: _Piece, buffer: torch.Tensor) -> None:
        view = memoryview((ctypes.c_ubyte * piece.size).from_address(buffer.data_ptr()))
        place, descriptor = piece.tensor.begin + piece.start, self._descriptors[piece.tensor.path]
        done = 0
        try:
            while done < piece.size:
                read = os.preadv(descriptor, [view[done:]], place + done)
                if not read:
                    name = quoted(piece.tensor.spec.name)
                    raise ArtifactInvalid(str(piece.tensor.path), [f"it ended inside {name} while it was read"])
                done += read
        except OSError as error:
            problem = f"it cannot be read: {error.strerror or error}"
            raise ArtifactInvalid(str(piece.tensor.path), [problem]) from None


def _pieces(tensor: StoredTensor) -> list[_Piece]:
    size = tensor.spec.bytes
    return [_Piece(tensor, start, min(PIECE_BYTES, size - start)) for start in range(0, size, PIECE_BYTES)]
