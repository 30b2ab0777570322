"""The backends that come with ninfer keep to what is asked of anybody's."""

from __future__ import annotations

from types import MappingProxyType

from ninfer_core.artifact.embedded import EMBEDDED_SOURCE
from ninfer_core.testing.drafter import DrafterConformance
from ninfer_core.testing.manifest import ManifestConformance


class TestMtpManifest(ManifestConformance):
    kind = "spec"
    plugin = "mtp@ninfer-speculative"


class TestDFlashManifest(ManifestConformance):
    kind = "spec"
    plugin = "dflash@ninfer-speculative"


class TestDFlash2Manifest(ManifestConformance):
    kind = "spec"
    plugin = "dflash2@ninfer-speculative"


class TestMtp(DrafterConformance):
    plugin = "mtp"
    artifact = EMBEDDED_SOURCE
    options = MappingProxyType({"lm_head_draft": True, "draft_tokens": 5})


class TestDFlash2(DrafterConformance):
    plugin = "dflash2"
    artifact = EMBEDDED_SOURCE
