"""`ManifestConformance`: what a plugin of any kind owes before its code is asked to do anything.

Subclass it in a test module, next to the suite of the plugin's kind:

    class TestQ8RowManifest(ManifestConformance):
        kind = "kv"
        plugin = "q8row"
"""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import pytest

from ninfer_core.api.plan import PluginPin
from ninfer_core.plugins.loading import LoadedPlugin
from ninfer_core.plugins.offer import PluginOffer, standing
from ninfer_core.plugins.registry import PluginRegistry

MAX_SUMMARY_CHARACTERS = 100
SUBPROCESS_SECONDS = 60


def loaded_after(code: str) -> set[str]:
    """The modules a fresh interpreter with this one's `sys.path` has loaded once it has run `code`."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    script = f"import sys\n{code}\nprint('\\n' + ' '.join(sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=SUBPROCESS_SECONDS
    )
    assert run.returncode == 0, run.stderr
    return set(run.stdout.splitlines()[-1].split())


class ManifestConformance:
    """`plugin` is `name` or `name@package`, as users would type it. The plugin's package must be installed."""

    kind: str
    plugin: str

    @pytest.fixture
    def registry(self) -> PluginRegistry:
        return PluginRegistry.discover()

    @pytest.fixture
    def offer(self, registry: PluginRegistry) -> PluginOffer:
        return registry.find(self.kind, self.plugin)

    @pytest.fixture
    def loaded(self, registry: PluginRegistry, offer: PluginOffer) -> LoadedPlugin:
        return registry.load(offer)

    def test_the_manifest_is_there_and_valid(self, offer: PluginOffer) -> None:
        assert offer.manifest_problem is None
        assert standing(offer, None).reason == ""

    def test_the_summary_fits_on_one_line_of_a_listing(self, offer: PluginOffer) -> None:
        assert offer.manifest is not None
        assert 0 < len(offer.manifest.summary) <= MAX_SUMMARY_CHARACTERS
        assert "\n" not in offer.manifest.summary

    def test_importing_the_plugin_imports_no_torch(self, offer: PluginOffer) -> None:
        modules = loaded_after(f"import {offer.target.partition(':')[0]}")
        assert not modules & {"torch", "triton"}

    def test_listing_does_not_import_the_plugin(self, offer: PluginOffer) -> None:
        modules = loaded_after("from ninfer_core.plugins import PluginRegistry; PluginRegistry.discover()")
        assert offer.target.partition(".")[0] not in modules

    def test_every_hook_of_the_kind_is_implemented(self, loaded: LoadedPlugin) -> None:
        assert loaded.missing_hooks() == ()

    def test_the_module_says_what_it_is(self, offer: PluginOffer, loaded: LoadedPlugin) -> None:
        module = sys.modules[offer.target.partition(":")[0]]
        assert (module.__doc__ or "").strip()

    def test_the_pin_survives_the_trip_to_the_engine_process(self, loaded: LoadedPlugin) -> None:
        assert msgspec.json.decode(msgspec.json.encode(loaded.pin), type=PluginPin) == loaded.pin
