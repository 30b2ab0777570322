"""The whole state of a stage that ran out of time, in files of at most 16 MB: it goes on as if it had not been stopped.

Weights and moments are kept in float32; `model.safetensors`, which the next stage reads, is rounded. Batches are not
kept: they follow from the seed, and whoever goes on has those that were used generated again.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from tools.tiny_model.geometry import Geometry
from tools.tiny_model.optimizer import Optimizer

MOST_BYTES = 16_000_000
NOTE = "state.json"
WEIGHT, MOMENT = "weight.", "moment."


class OutOfTime(Exception):
    """The guard of `--budget`: fewer steps than the stage has were done, and their state is kept."""

    code, exit_status = "out_of_time", 3

    def __init__(self, done: int, steps: int, directory: Path) -> None:
        super().__init__(
            f"{done} of {steps} steps are done. Their state is in {directory}: the same command goes on from there; on "
            "a machine that is only slow, raise --budget"
        )


class StateOfOthers(Exception):
    """A directory holds the state of a stage with other settings."""

    code, exit_status = "state_of_others", 2


@contextmanager
def said_to_the_caller() -> Iterator[None]:
    """What a stage ends with before its last step is a line and an exit status of the command."""
    try:
        yield
    except (OutOfTime, StateOfOthers) as error:
        print(f"{error.code}: {error}", file=sys.stderr)
        raise SystemExit(error.exit_status) from None


class State(msgspec.Struct, frozen=True, kw_only=True):
    """`losses` of each part of the stage that has begun; the last of them is the one that was stopped."""

    settings: str
    losses: tuple[tuple[float, ...], ...]


def settings_digest(stage: Any, geometry: Geometry, weights: Path | None) -> str:
    """Of all that decides the result of a stage: the weights that it starts from too, but not where files lie."""
    decisive = {name: value for name, value in asdict(stage).items() if name != "config"} | asdict(geometry)
    digest = hashlib.sha256(msgspec.json.encode(decisive, order="deterministic"))
    if weights is not None:
        digest.update(weights.read_bytes())
    return digest.hexdigest()


def save_state(directory: Path, state: State, module: nn.Module, optimizer: Optimizer) -> None:
    drop_state(directory)
    tensors = {WEIGHT + name: weight for name, weight in module.state_dict().items()}
    tensors |= {MOMENT + name: moment for name, moment in optimizer.moments().items()}
    for number, part in enumerate(_parts(tensors)):
        save_file(part, directory / f"state-{number}.safetensors")
    # Last: without it there is no state.
    (directory / NOTE).write_bytes(msgspec.json.encode(state))


def read_state(directory: Path, settings: str) -> State | None:
    """What was stopped in this directory, if anything was. Raises StateOfOthers."""
    if not (directory / NOTE).exists():
        return None
    state = msgspec.json.decode((directory / NOTE).read_bytes(), type=State)
    if state.settings != settings:
        raise StateOfOthers(
            f"{directory} has the state of a stage with other settings, data or weights: give another --out, or remove "
            f"{NOTE} there"
        )
    return state


def load_state(directory: Path, module: nn.Module, optimizer: Optimizer) -> None:
    tensors: dict[str, Tensor] = {}
    for path in _files(directory):
        tensors |= load_file(path)
    module.load_state_dict(_under(WEIGHT, tensors))
    optimizer.load(_under(MOMENT, tensors))


def drop_state(directory: Path) -> None:
    (directory / NOTE).unlink(missing_ok=True)
    for path in _files(directory):
        path.unlink()


def _files(directory: Path) -> Iterable[Path]:
    return directory.glob("state-*.safetensors")


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _parts(tensors: Mapping[str, Tensor]) -> Iterator[dict[str, Tensor]]:
    """As few files as the order allows; the header of a file is small beside the room left."""
    part: dict[str, Tensor] = {}
    size = 0
    for name, tensor in tensors.items():
        bytes_more = tensor.numel() * tensor.element_size()
        assert bytes_more < MOST_BYTES - 2**20, f"{name} alone is too large for a file"
        if part and size + bytes_more > MOST_BYTES - 2**20:
            yield part
            part, size = {}, 0
        part[name] = tensor.detach().to("cpu", copy=True).contiguous()
        size += bytes_more
    yield part
