"""What every generation request has to keep to, whichever protocol made it: nothing behind this checks it again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from ninfer_core.api.errors import RequestError, TooManyTools
from ninfer_core.api.request import MAX_TOOLS, GenerationRequest, SamplingOptions, ToolDefinition

MAX_TOOL_BYTES = 4 * 2**20
"""JSON of all tools together: more than any context holds."""

_CHANNELS = ("reasoning", "content")
_RANGES: Mapping[str, tuple[float, float]] = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
}
_INTEGER_RANGES: Mapping[str, tuple[int, int]] = {"top_k": (0, 2**31 - 1), "seed": (-(2**63), 2**63 - 1)}


def check_request(request: GenerationRequest) -> None:
    """Raise a RequestError for what no engine could do. Protocols have narrower rules of their own, and words of
    their clients for them; this is the last word for a protocol that has none."""
    _integer("max_output_tokens", request.max_output_tokens, 0, math.inf)
    _integer("thinking_budget", request.thinking_budget, 1, math.inf)
    if len(request.tools) > MAX_TOOLS:
        raise TooManyTools(f"there are {len(request.tools)}, and a request may have {MAX_TOOLS}")
    _check_stops(request)
    _check_sampling(request.sampling)


def check_tools(tools: Sequence[ToolDefinition]) -> None:
    """Raise a RequestError for definitions that no context holds. Looks at every byte of them."""
    size = 0
    for tool in tools:
        size += len(msgspec.json.encode(tool.definition))
        if size > MAX_TOOL_BYTES:
            raise TooManyTools(f"they have more than {MAX_TOOL_BYTES} bytes of JSON, which no context holds")


def _check_stops(request: GenerationRequest) -> None:
    for stop in request.stop:
        if not isinstance(stop, str) or not stop:
            raise _invalid("stop", f"holds {stop!r}; a stop string has at least one character")
        try:
            stop.encode()
        except UnicodeEncodeError:
            raise _invalid("stop", "holds a lone surrogate, which no text contains") from None
    unknown = [channel for channel in request.stop_channels if channel not in _CHANNELS]
    if unknown:
        raise _invalid("stop_channels", f"holds {unknown[0]!r}; there are {' and '.join(_CHANNELS)}")


def _check_sampling(sampling: SamplingOptions) -> None:
    for name, (low, high) in _RANGES.items():
        value = getattr(sampling, name)
        # A NaN is in no range.
        if value is not None and not (_is_number(value) and low <= value <= high):
            raise _invalid(name, f"is {value!r}; it must be a number from {low} to {high}")
    for name, (low, high) in _INTEGER_RANGES.items():
        _integer(name, getattr(sampling, name), low, high)


def _integer(name: str, value: object, low: float, high: float) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        bounds = f"{low} or more" if math.isinf(high) else f"from {low} to {high}"
        raise _invalid(name, f"is {value!r}; it must be a whole number, {bounds}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _invalid(name: str, problem: str) -> RequestError:
    return RequestError(f"'{name}' {problem}", param=name)
