"""An artifact that has been opened: its header, and where its weights come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from ninfer_core.api.artifact import ArtifactHeader
from ninfer_core.artifact.safetensors_file import StoredTensor, read_chunks
from ninfer_core.artifact.weights import FileWeights, OpenWeights


class TensorStore(Protocol):
    """Where the weights of one kind of source are."""

    def open_weights(self) -> OpenWeights: ...

    def chunks(self, name: str) -> Iterator[bytes]:
        """The tensor's bytes as they are stored. Raises ArtifactInvalid where weights are not stored at all."""
        ...


@dataclass(frozen=True, slots=True)
class ArtifactHandle:
    """Holds no file open: only what `open_weights` gives needs closing.

    `notes` are remarks that keep nobody from using the artifact, such as a file that is left out.
    """

    header: ArtifactHeader
    notes: tuple[str, ...]
    store: TensorStore

    def open_weights(self) -> OpenWeights:
        """A weight source over the artifact's tensors; tensors read from it stay valid after it is closed."""
        return self.store.open_weights()

    @property
    def weight_bytes(self) -> int:
        """Bytes of all tensors of the artifact; what of them is loaded depends on the plan."""
        return sum(spec.bytes for spec in self.header.tensors)


def file_sizes(tensors: Iterable[StoredTensor]) -> tuple[int, ...]:
    """`ArtifactHeader.file_bytes` of the files that these tensors are in."""
    by_path = {found.path: found.file_bytes for found in tensors}
    return tuple(by_path[path] for path in sorted(by_path))


@dataclass(frozen=True, slots=True)
class FileStore:
    """Weights in safetensors files."""

    source: str
    tensors: Mapping[str, StoredTensor]

    def open_weights(self) -> OpenWeights:
        return FileWeights(self.source, self.tensors)

    def chunks(self, name: str) -> Iterator[bytes]:
        return read_chunks(self.tensors[name])
