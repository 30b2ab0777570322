"""`cache_control` of blocks and of the request -> cache marks (contract ANTH-21 to 24, IMPL-15)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ninfer_core.api import CacheMark, RequestError
from ninfer_protocols.wire.errors import invalid_value

MAX_BREAKPOINTS = 4
_TTLS = ("5m", "1h")

Target = tuple[int | None, int | None]
"""Message and part of a CacheMark."""


def read_ttl(holder: Mapping[str, Any], where: str) -> str | None:
    """The TTL of the `cache_control` in `holder`, None without one. Raises RequestError `invalid_cache_control`."""
    control = holder.get("cache_control")
    if control is None:
        return None
    path = f"{where}.cache_control" if where else "cache_control"
    if not isinstance(control, dict) or control.get("type") != "ephemeral":
        raise invalid_value(path, "must be {'type': 'ephemeral'}", code="invalid_cache_control")
    ttl = control.get("ttl")
    if ttl is None:
        return _TTLS[0]
    if ttl not in _TTLS:
        raise invalid_value(f"{path}.ttl", f"must be one of {', '.join(_TTLS)}", code="invalid_cache_control")
    return str(ttl)


class CacheMarks:
    """Takes every cacheable block in the order of the prompt, and gives the marks."""

    def __init__(self) -> None:
        self._ttls: dict[Target, str] = {}
        self._last: Target | None = None
        self._automatic: Target | None = None

    def block(self, target: Target, ttl: str | None, where: str) -> None:
        """A block that ends at `target`; with a TTL, one that a client has marked."""
        self._last = target
        if ttl is None:
            return
        if self._ttls.setdefault(target, ttl) != ttl:
            raise _conflict(f"{where}.cache_control", self._ttls[target], ttl)
        if len(self._ttls) > MAX_BREAKPOINTS:
            raise RequestError(
                f"{where}.cache_control: is breakpoint {len(self._ttls)}; a request has at most {MAX_BREAKPOINTS}",
                code="too_many_cache_breakpoints",
                param=f"{where}.cache_control",
            )

    def last_block(self, ttl: str) -> None:
        """The request's own control: it marks the last block, and needs a free slot for it (contract ANTH-22)."""
        if self._last is None:
            return
        if self._ttls.get(self._last, ttl) != ttl:
            raise _conflict("cache_control", self._ttls[self._last], ttl)
        if self._last not in self._ttls:
            if len(self._ttls) == MAX_BREAKPOINTS:
                raise RequestError(
                    f"cache_control: the blocks have {MAX_BREAKPOINTS} breakpoints already, which is the most a "
                    "request can have; take one away or leave this out",
                    code="too_many_cache_breakpoints",
                    param="cache_control",
                )
            self._automatic = self._last
            self._ttls[self._last] = ttl

    def marks(self) -> tuple[CacheMark, ...]:
        return tuple(
            CacheMark(
                message=target[0],
                part=target[1],
                evidence="automatic" if target == self._automatic else "explicit",
                ttl=ttl,
            )
            for target, ttl in self._ttls.items()
        )


def _conflict(param: str, first: str, second: str) -> RequestError:
    return RequestError(
        f"{param}: asks for {second} where another cache_control asks for {first}; use one TTL at one place",
        code="conflicting_cache_ttl",
        param=param,
    )
