"""Pieces of files in the order announced, with staging buffers on the host whose marks the test completes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from ninfer_core.api.artifact import TensorSpec
from ninfer_core.api.errors import ArtifactInvalid
from ninfer_core.artifact import read_ahead
from ninfer_core.artifact.read_ahead import ReadAhead, Taken
from ninfer_core.artifact.safetensors_file import StoredTensor, open_unchanged, read_safetensors
from ninfer_core.testing.toy_artifacts import toy_bytes, write_safetensors

SIZES = (100, 64, 1, 333, 0, 65, 128, 4096)
SPECS = [TensorSpec(name=f"t.{index}", shape=(size,), dtype="uint8") for index, size in enumerate(SIZES)]


class Mark:
    """Done when the device has got there, which a test decides."""

    def __init__(self, content: torch.Tensor | None) -> None:
        self.done = threading.Event()

    def synchronize(self) -> None:
        assert self.done.wait(20)


class HostStaging:
    """Every mark is done at once, or only when `finish` is called."""

    def __init__(self, *, at_once: bool = True) -> None:
        self.at_once = at_once
        self.buffers: list[torch.Tensor] = []
        self.marks: list[Mark] = []
        self.ended = 0

    def buffer(self, size: int) -> torch.Tensor:
        self.buffers.append(torch.zeros(size, dtype=torch.uint8))
        return self.buffers[-1]

    def mark(self) -> Taken:
        self.marks.append(Mark(None))
        if self.at_once:
            self.marks[-1].done.set()
        return self.marks[-1]

    def end(self) -> None:
        self.ended += 1


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ahead, "PIECE_BYTES", 64)
    monkeypatch.setattr(read_ahead, "BUFFERS", 3)


@pytest.fixture
def stored(tmp_path: Path) -> list[StoredTensor]:
    """Two files that hold the tensors by turns."""
    for number in range(2):
        write_safetensors(tmp_path / f"{number}.safetensors", SPECS[number::2])
    found = [t for number in range(2) for t in read_safetensors(tmp_path / f"{number}.safetensors").tensors]
    return sorted(found, key=lambda tensor: tensor.spec.name)


@pytest.fixture
def queues() -> Iterator[list[ReadAhead]]:
    opened: list[ReadAhead] = []
    yield opened
    for queue in opened:
        queue.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ninfer-read-ahead")]


def taken(queue: ReadAhead, spec: TensorSpec, start: int = 0, stop: int | None = None) -> bytes | None:
    out = torch.empty((spec.bytes if stop is None else stop) - start, dtype=torch.uint8)
    return bytes(out.tolist()) if queue.copy(spec.name, out, start) else None


def test_everything_in_order(stored: list[StoredTensor], queues: list[ReadAhead]) -> None:
    staging = HostStaging()
    queues.append(ReadAhead(stored, staging))
    for spec in SPECS:
        if spec.bytes:
            assert taken(queues[0], spec) == toy_bytes(spec)
    assert len(staging.buffers) == 3 and all(len(buffer) == 64 for buffer in staging.buffers)
    assert taken(queues[0], SPECS[0]) is None


def test_a_tensor_in_parts(stored: list[StoredTensor], queues: list[ReadAhead]) -> None:
    queues.append(ReadAhead(stored[3:4], HostStaging()))
    cuts = [0, 1, 64, 70, 200, 332, 333]
    parts = [taken(queues[0], SPECS[3], start, stop) for start, stop in pairwise(cuts)]
    assert b"".join(part or b"" for part in parts) == toy_bytes(SPECS[3])


def test_what_does_not_come_next_is_left_to_the_caller(stored: list[StoredTensor], queues: list[ReadAhead]) -> None:
    queues.append(ReadAhead(stored, HostStaging()))
    assert taken(queues[0], SPECS[0], 64) is None
    assert taken(queues[0], TensorSpec(name="other", shape=(3,), dtype="uint8")) is None
    assert taken(queues[0], SPECS[0]) == toy_bytes(SPECS[0])
    assert taken(queues[0], SPECS[5]) == toy_bytes(SPECS[5])  # three that nobody asked for are passed over
    assert taken(queues[0], SPECS[3]) is None
    assert taken(queues[0], SPECS[6]) == toy_bytes(SPECS[6])


def test_a_buffer_is_used_again_only_when_it_has_been_taken(
    stored: list[StoredTensor], queues: list[ReadAhead]
) -> None:
    """The last tensor has 64 pieces and there are three buffers: without marks that are done, three pieces arrive."""
    staging = HostStaging(at_once=False)
    queues.append(ReadAhead(stored[-1:], staging))
    assert taken(queues[0], SPECS[-1], 0, 192) == toy_bytes(SPECS[-1])[:192]
    held = [bytes(buffer.tolist()) for buffer in staging.buffers]
    assert sorted(held) == sorted(toy_bytes(SPECS[-1])[start : start + 64] for start in (0, 64, 128))
    staging.at_once = True
    for mark in staging.marks:
        mark.done.set()
    assert taken(queues[0], SPECS[-1], 192) == toy_bytes(SPECS[-1])[192:]


def test_a_file_that_ends_while_it_is_read(
    stored: list[StoredTensor], queues: list[ReadAhead], monkeypatch: pytest.MonkeyPatch
) -> None:
    queues.append(ReadAhead([], HostStaging()))
    last = stored[-1]

    def shortened(tensor: StoredTensor) -> int:
        descriptor = open_unchanged(tensor)
        with last.path.open("r+b") as file:
            file.truncate(last.end - 100)
        return descriptor

    monkeypatch.setattr(read_ahead, "open_unchanged", shortened)
    queues.append(ReadAhead([last], HostStaging()))
    with pytest.raises(ArtifactInvalid, match=r"it ended inside 't\.7' while it was read"):
        taken(queues[1], SPECS[-1])


def test_a_file_that_has_changed_or_gone(stored: list[StoredTensor], tmp_path: Path) -> None:
    stored[0].path.write_bytes(stored[0].path.read_bytes() + b"more")
    with pytest.raises(ArtifactInvalid, match="bytes now and had"):
        ReadAhead(stored, HostStaging())
    stored[0].path.unlink()
    with pytest.raises(ArtifactInvalid, match="cannot be read"):
        ReadAhead(stored, HostStaging())


def test_closing_early_ends_the_threads(stored: list[StoredTensor], queues: list[ReadAhead]) -> None:
    staging = HostStaging()
    queues.append(ReadAhead(stored, staging))
    assert taken(queues[0], SPECS[0]) == toy_bytes(SPECS[0])
    assert staging.ended == 0
    queues[0].close()
    queues[0].close()
    assert staging.ended == 1
