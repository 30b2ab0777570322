from __future__ import annotations

from pathlib import Path

import pytest

from ninfer_core.api import KINDS, DeviceInfo
from ninfer_core.api.hooks import is_optional
from ninfer_core.plugins import PluginRegistry
from ninfer_core.plugins.checking import check_offer
from ninfer_core.plugins.loading import hook_names
from ninfer_core.testing.plugins import entry_points_in, write_plugin_package

CPU = DeviceInfo(kind="cpu", index=None, name="cpu", memory_bytes=1 << 30, compute_capability=None)


def test_what_may_be_left_out_is_marked_on_the_specs() -> None:
    optional = {hook for kind in KINDS for hook in hook_names(kind) if is_optional(kind, hook)}
    assert optional == {
        "ninfer_check",
        "ninfer_family_dummies",
        "ninfer_family_matrices",
        "ninfer_family_reference_operations",
        "ninfer_family_vocabulary",
        "ninfer_spec_inventory",
    }


def test_a_family_without_its_optional_hooks_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    needed = [hook for hook in hook_names("family") if not is_optional("family", hook)]
    source = "from ninfer_core.api import hookimpl\nclass Format: decoder = parser = None\n" + "".join(
        f"@hookimpl\ndef {hook}(): return Format()\n" for hook in needed
    )
    write_plugin_package(tmp_path, "optional-family", {"family:whole": source})
    registry = PluginRegistry.discover(entry_points_in(tmp_path), {})
    (offer,) = registry.offers()
    assert check_offer(registry, offer, [CPU]).findings == ()
    plugin = registry.load(offer)
    assert plugin.missing_hooks() == ()
    assert plugin.hook.ninfer_family_dummies() is None
