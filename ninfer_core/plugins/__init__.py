"""Plugins: found from package metadata, chosen by name, imported only when chosen."""

from __future__ import annotations

from ninfer_core.plugins.claims import (
    DrafterClaim,
    DrafterClaims,
    FamilyClaims,
    claiming_drafters,
    claiming_families,
    overlapping_paths,
)
from ninfer_core.plugins.loading import LoadedPlugin
from ninfer_core.plugins.offer import PluginOffer
from ninfer_core.plugins.registry import PluginRegistry

__all__ = [
    "DrafterClaim",
    "DrafterClaims",
    "FamilyClaims",
    "LoadedPlugin",
    "PluginOffer",
    "PluginRegistry",
    "claiming_drafters",
    "claiming_families",
    "overlapping_paths",
]
