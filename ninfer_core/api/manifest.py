"""What a plugin says of itself without being imported: `ninfer.toml` in its top-level package."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

KINDS = ("protocol", "family", "kv", "spec", "media")
"""The kinds of plugin. The entry-point group of a kind is `ninfer.<kind>`."""

PROVISIONAL_KINDS: Mapping[str, str] = MappingProxyType({"media": "image and video input"})
"""Kinds that no third party can offer yet, and what opens them. Nothing of the core calls their hooks so far, so that
they have been proven by nobody and will change: they are no part of plugin API version 1."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table `[<kind>.<name>]` of a package's `ninfer.toml`.

    `api` is the plugin API version the code was written for. `provides`, `requires` and `conflicts` are
    capability words such as `kv.rollback`; `modules` are import names that must be findable; `devices`
    are `cpu` or `cuda`, empty for both.
    """

    api: int
    summary: str
    provides: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
