"""What the names in an artifact's identity may be, and which weights a numeric form stands for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ninfer_core.api.artifact import ArtifactIdentity, TensorSpec
from ninfer_core.api.stored_matrix import FP8_CODES, NVFP4_CODES, WeightsFormat
from ninfer_core.artifact.wording import quoted

MAX_NAME_CHARACTERS = 200

WEIGHTS_ID_BY_DTYPE: Mapping[str, str] = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
"""Forms of weights that are plain numbers."""

CODED_FORMS: tuple[WeightsFormat, ...] = ("fp8", "nvfp4")
"""Forms whose matrices are codes."""
_FORM_BY_CODES: Mapping[str, str] = {FP8_CODES: "fp8", NVFP4_CODES: "nvfp4"}

SCALE_ENDINGS = ("_scale", "_scale_inv", "_scale_2", "_global_scale")
"""What the names of scales have behind that of their matrix."""


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
    known = (*WEIGHTS_ID_BY_DTYPE.values(), *CODED_FORMS)
    if weights_id not in known:
        return f"weights_id is {quoted(weights_id)}; this release knows {', '.join(known)}"
    stored = weights_id_of(specs)
    if stored != weights_id:
        return f"weights_id is {quoted(weights_id)}, but what is stored is {stored}"
    return None


def weights_id_of(specs: Iterable[TensorSpec]) -> str:
    """`nvfp4` where a matrix has 4-bit codes, else `fp8` where one has 8-bit codes, else the dtype that holds most
    bytes, in short where it has a short name. Codes are what has a scale beside it (`api.stored_matrix`)."""
    by_name: dict[str, TensorSpec] = {}
    bytes_by_dtype: dict[str, int] = {}
    for spec in specs:
        by_name[spec.name] = spec
        bytes_by_dtype[spec.dtype] = bytes_by_dtype.get(spec.dtype, 0) + spec.bytes
    forms = {form_of_codes(spec, by_name) for spec in by_name.values()}
    for form in ("nvfp4", "fp8"):
        if form in forms:
            return form
    largest = max(bytes_by_dtype, key=lambda dtype: bytes_by_dtype[dtype], default="")
    return WEIGHTS_ID_BY_DTYPE.get(largest, largest)


def form_of_codes(spec: TensorSpec, by_name: Mapping[str, TensorSpec]) -> str | None:
    """Of codes, which have a scale beside them (`api.stored_matrix`), the form; None for every other tensor."""
    form = _FORM_BY_CODES.get(spec.dtype)
    stem = spec.name.removesuffix("_packed")
    return form if any(stem + ending in by_name for ending in ("_scale", "_scale_inv")) else None
