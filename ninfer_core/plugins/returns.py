"""What hooks give back, held against their specs where the core takes it in: a plugin that errs is named at once, with
the hook, instead of failing somewhere in the planning of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from ninfer_core.api.artifact import DRAFT_GROUP, DRAFT_PREFIX, DTYPE_BYTES, ArtifactHeader, TensorSpec
from ninfer_core.api.frontend import SamplingPresets, TemplateCapabilities
from ninfer_core.api.geometry import Geometry
from ninfer_core.api.kv import KVLayout
from ninfer_core.api.request import GenerationRequest
from ninfer_core.api.speculative import FINAL_HIDDEN, MOST_DRAFT_TOKENS, DrafterNeeds, DraftTokens


def wrong_return(hook: str, result: object) -> str | None:
    """What is wrong with a hook's `result`, which is not None; None when nothing is."""
    check = _CHECKS.get(hook)
    if check is None:
        return None
    try:
        check(result)
    except (ValueError, TypeError) as error:
        return str(error)
    return None


def _instance(result: object, kind: type) -> None:
    if not isinstance(result, kind) or (kind is int and isinstance(result, bool)):
        raise TypeError(f"{type(result).__name__}, where {kind.__name__} belongs")


def _struct(result: object, kind: type) -> None:
    """The instance and, since constructors do not look at types, everything in it."""
    _instance(result, kind)
    msgspec.convert(msgspec.to_builtins(result), kind)


def _known_dtypes(dtypes: Iterable[str]) -> None:
    for dtype in dtypes:
        if dtype not in DTYPE_BYTES:
            raise ValueError(f"dtype '{dtype}', which is none of {', '.join(DTYPE_BYTES)}")


def _match(result: object) -> None:
    _instance(result, bool)


def _geometry(result: object) -> None:
    _struct(result, Geometry)
    assert isinstance(result, Geometry)
    attention = result.attention
    numbers = {
        "hidden_size": result.hidden_size,
        "layers": result.layers,
        "vocabulary_rows": result.vocabulary_rows,
        "max_positions": result.max_positions,
        "attention.head_dim": attention.head_dim,
        "attention.kv_heads": attention.kv_heads,
        "attention.query_heads": attention.query_heads,
    }
    if wrong := [f"{name} {number}" for name, number in numbers.items() if number < 1]:
        raise ValueError(f"{', '.join(wrong)}, where at least 1 belongs")
    if attention.query_heads % attention.kv_heads:
        raise ValueError(f"{attention.query_heads} query heads, no multiple of {attention.kv_heads} KV heads")
    if negative := [f"{array.name} keeps {array.kept} columns" for array in result.records if array.kept < 0]:
        raise ValueError(f"{', '.join(negative)}, where at least 0 belongs")
    if state := [array.name for array in result.state if array.kept]:
        raise ValueError(f"{', '.join(state)} in the state keeps columns, which only records do")
    arrays = (*result.state, *result.records)
    _known_dtypes(array.dtype for array in arrays)
    _sizes({array.name: (array.layers, *array.shape) for array in arrays})


def _tensors(result: object) -> None:
    if not isinstance(result, Sequence) or isinstance(result, str | bytes):
        raise TypeError(f"{type(result).__name__}, where a sequence of TensorSpec belongs")
    for spec in result:
        _struct(spec, TensorSpec)
    _known_dtypes(spec.dtype for spec in result)
    _sizes({spec.name: spec.shape for spec in result})


def _draft_tensors(result: Any) -> None:
    _tensors(result)
    if strange := [spec.name for spec in result if not spec.name.startswith(DRAFT_PREFIX)]:
        raise ValueError(f"{strange[0]}, where names begin with {DRAFT_PREFIX}")
    if others := [spec.group for spec in result if spec.group != DRAFT_GROUP]:
        raise ValueError(f"a tensor of group '{others[0]}', where all are of '{DRAFT_GROUP}'")


def _sizes(shapes: Mapping[str, tuple[int, ...]]) -> None:
    if wrong := [f"{name} of {list(shape)}" for name, shape in shapes.items() if min(shape, default=0) < 0]:
        raise ValueError(f"{', '.join(wrong)}, where at least 0 belongs")


def _workspace(result: object) -> None:
    _instance(result, int)
    assert isinstance(result, int)
    if result < 0:
        raise ValueError(f"{result} bytes")


def _frontend(result: Any) -> None:
    _has(result, "capabilities", "presets", "prepare", "fewest_tokens")
    _struct(result.capabilities, TemplateCapabilities)
    _struct(result.presets, SamplingPresets)
    _vocabulary(result)


def _vocabulary(result: Any) -> None:
    _has(result, "output_format", "stop_token_ids", "token_domain", "thinking_control_ids", "token_bytes")
    _has(result.output_format, "decoder", "parser")
    _instance(result.token_domain, int)
    ids = [*msgspec.convert(result.stop_token_ids, tuple[int, ...])]
    ids += msgspec.convert(result.thinking_control_ids, tuple[int, ...])
    # A domain that does not fit the model is the artifact's fault, which `checked_frontend` says.
    beyond = [token_id for token_id in ids if not 0 <= token_id < result.token_domain]
    if result.token_domain > 0 and beyond:
        raise ValueError(f"token id {beyond[0]}, where one of 0..{result.token_domain - 1} belongs")


def _dummies(result: object) -> None:
    if not isinstance(result, Mapping):
        raise TypeError(f"{type(result).__name__}, where a mapping of ArtifactHeader belongs")
    for header in result.values():
        _instance(header, ArtifactHeader)


def _layout(result: object) -> None:
    _struct(result, KVLayout)
    assert isinstance(result, KVLayout)
    _known_dtypes(plane.dtype for plane in result.planes)
    parts = [plane.part for plane in result.planes]
    if parts != sorted(parts) or set(parts) != {"key", "value"}:
        raise ValueError(f"planes of {', '.join(parts) or 'nothing'}, where those of keys come first, then of values")
    for plane in result.planes:
        if plane.elements < 1:
            raise ValueError(f"plane {plane.part}.{plane.name} of {plane.elements} elements")
    if len({(plane.part, plane.name) for plane in result.planes}) < len(parts):
        raise ValueError("two planes of one part with one name")


def _codec(result: Any) -> None:
    _has(result, "layout", "encode", "decode")
    _instance(result.layout, KVLayout)
    if result.layout.device_functions:
        _has(result, "device_functions")


def _draft_tokens(result: object) -> None:
    _struct(result, DraftTokens)
    assert isinstance(result, DraftTokens)
    if not 1 <= result.default <= result.most <= MOST_DRAFT_TOKENS:
        raise ValueError(
            f"{result.default} draft tokens of at most {result.most}, where 1 <= default <= most <= "
            f"{MOST_DRAFT_TOKENS} belongs"
        )


def _needs(result: object) -> None:
    _struct(result, DrafterNeeds)
    assert isinstance(result, DrafterNeeds)
    numbers = {"kv_layers": result.kv_layers, "law_width": result.law_width, "workspace_bytes": result.workspace_bytes}
    if wrong := [f"{name} {number}" for name, number in numbers.items() if number < 0]:
        raise ValueError(f"{', '.join(wrong)}, where at least 0 belongs")
    if beyond := [tap for tap in result.taps if tap < FINAL_HIDDEN]:
        raise ValueError(f"tap {beyond[0]}, where a layer or {FINAL_HIDDEN} belongs")
    if len({array.name for array in result.state}) < len(result.state):
        raise ValueError("two state arrays of one name")
    if kept := [array.name for array in result.state if array.kept]:
        raise ValueError(f"{', '.join(kept)} in the state keeps columns, which only a model's records do")
    _tensors(result.resident)
    _known_dtypes(array.dtype for array in result.state)
    _sizes({array.name: (array.layers, *array.shape) for array in result.state})
    on_device = (result.taps, result.kv_layers, result.state, result.law_width, result.resident)
    if result.runs_on == "host" and any(on_device):
        raise ValueError("a drafter on the host that wants taps, layers, state, a law or weights on the device")


def _findings(result: object) -> None:
    msgspec.convert(result, Sequence[str])


def _has(result: object, *names: str) -> None:
    missing = [name for name in names if not hasattr(result, name)]
    if missing:
        raise TypeError(f"{type(result).__name__} without {', '.join(missing)}")


def _with(*names: str) -> Callable[[object], None]:
    return lambda result: _has(result, *names)


_CHECKS: Mapping[str, Callable[[object], None]] = MappingProxyType(
    {
        "ninfer_check": _findings,
        "ninfer_protocol_build": _with("path_prefixes", "handlers", "wire_error"),
        "ninfer_protocol_lower": lambda result: _instance(result, GenerationRequest),
        "ninfer_family_match": _match,
        "ninfer_family_geometry": _geometry,
        "ninfer_family_inventory": _tensors,
        "ninfer_family_matrices": _findings,
        "ninfer_family_resident": _tensors,
        "ninfer_family_frontend": _frontend,
        "ninfer_family_vocabulary": _vocabulary,
        "ninfer_family_output_format": _with("decoder", "parser"),
        "ninfer_family_workspace": _workspace,
        "ninfer_family_reference_operations": _findings,
        "ninfer_family_build": _with("prefill", "decode", "fold", "logits"),
        "ninfer_family_dummies": _dummies,
        "ninfer_kv_layout": _layout,
        "ninfer_kv_codec": _codec,
        "ninfer_spec_inventory": _draft_tensors,
        "ninfer_spec_draft_tokens": _draft_tokens,
        "ninfer_spec_needs": _needs,
        "ninfer_spec_build": _with("propose"),
    }
)
