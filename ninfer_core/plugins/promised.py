"""Names that the serving contract promises and this release does not offer yet."""

from __future__ import annotations

import msgspec


class Promise(msgspec.Struct, frozen=True, kw_only=True):
    """A name users may expect. It counts only as long as no installed plugin offers it."""

    kind: str
    name: str
    package: str
    summary: str


PROMISES: tuple[Promise, ...] = (
    Promise(kind="kv", name="int8", package="ninfer-kvformats", summary="int8 keys and values"),
    Promise(kind="kv", name="nvfp4", package="ninfer-kvformats", summary="e2m1 keys and values in blocks of 16"),
    Promise(kind="kv", name="k8v4", package="ninfer-kvformats", summary="8-bit keys, 4-bit values"),
    Promise(kind="media", name="image", package="ninfer-media", summary="Images"),
    Promise(kind="media", name="video", package="ninfer-media", summary="Videos"),
)


def promise_of(kind: str, name: str) -> Promise | None:
    """The promise of that kind and name, whether or not a plugin offers it by now."""
    return next((promise for promise in PROMISES if (promise.kind, promise.name) == (kind, name)), None)
