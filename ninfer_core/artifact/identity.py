"""What the names in an artifact's identity may be, and which weights a numeric form stands for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ninfer_core.api.artifact import ArtifactIdentity, TensorSpec
from ninfer_core.artifact.wording import quoted

MAX_NAME_CHARACTERS = 200

WEIGHTS_ID_BY_DTYPE: Mapping[str, str] = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
"""The forms that this release knows."""


def name_problem(name: str) -> str | None:
    """Why it cannot be a public name, None where it can: names are listed, logged and sent to clients."""
    if not name.strip():
        return "must not be empty"
    if len(name) > MAX_NAME_CHARACTERS:
        return f"has {len(name)} characters; at most {MAX_NAME_CHARACTERS} are allowed"
    if not name.isprintable():
        return f"is {quoted(name)}; only printable characters are allowed"
    return None


def name_problems(identity: ArtifactIdentity) -> list[str]:
    """A line for each name of a container that cannot be one."""
    names = {"model_id": identity.model_id, "weights_id": identity.weights_id, "family": identity.family}
    found = ((member, name_problem(name)) for member, name in names.items())
    return [f"{member} {problem}" for member, problem in found if problem is not None]


def weights_problem(weights_id: str, specs: Iterable[TensorSpec]) -> str | None:
    """Why the form does not describe these weights, None where it does."""
    known = tuple(WEIGHTS_ID_BY_DTYPE.values())
    if weights_id not in known:
        return f"weights_id is {quoted(weights_id)}; this release knows {', '.join(known)}"
    stored = weights_id_of(specs)
    if stored != weights_id:
        return f"weights_id is {quoted(weights_id)}, but most bytes of the weights are {stored}"
    return None


def weights_id_of(specs: Iterable[TensorSpec]) -> str:
    """The dtype that holds most bytes, in short where it has a short name."""
    bytes_by_dtype: dict[str, int] = {}
    for spec in specs:
        bytes_by_dtype[spec.dtype] = bytes_by_dtype.get(spec.dtype, 0) + spec.bytes
    largest = max(bytes_by_dtype, key=lambda dtype: bytes_by_dtype[dtype], default="")
    return WEIGHTS_ID_BY_DTYPE.get(largest, largest)
