from __future__ import annotations

from pathlib import Path

import pytest

from ninfer_core.api import DeviceInfo
from ninfer_core.plugins import PluginRegistry
from ninfer_core.plugins.checking import check_offer
from ninfer_core.testing.plugins import entry_points_in, write_plugin_package

CPU = DeviceInfo(kind="cpu", index=None, name="cpu", memory_bytes=1 << 30, compute_capability=None)
BODY = """
from ninfer_core.api import hookimpl

@hookimpl
def ninfer_kv_layout(head_dim): return 1

@hookimpl
def ninfer_kv_codec(layout): return 1

"""
CHECK = "@hookimpl\ndef ninfer_check(device): "


@pytest.mark.parametrize(
    ("source", "word", "findings"),
    [
        (BODY, "ready", ()),
        (BODY + CHECK + "return ()\n", "ready", ()),
        (BODY + CHECK + "return [f'slow on {device.kind}', 'no cache']\n", "failing", ("slow on cpu", "no cache")),
        (
            BODY.replace("@hookimpl\ndef ninfer_kv_codec", "def other"),
            "broken",
            ("does not implement ninfer_kv_codec",),
        ),
        ("raise ImportError('gone')", "broken", ("kv plugin 'it' from check-it 1.0 failed to import: gone",)),
        (
            BODY + CHECK + "raise OSError('no file')\n",
            "broken",
            ("kv plugin 'it' from check-it 1.0 failed in ninfer_check: OSError: no file",),
        ),
    ],
)
def test_a_check_stops_at_the_first_thing_that_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, word: str, findings: tuple[str, ...]
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    # Modules stay imported for the whole run, so every case needs an import name of its own.
    write_plugin_package(tmp_path, "check-it", {"kv:it": source}, import_name=f"check_{tmp_path.name}")
    registry = PluginRegistry.discover(entry_points_in(tmp_path), {})
    result = check_offer(registry, registry.offers()[0], [CPU])
    assert (result.word, result.findings) == (word, findings)


def test_a_plugin_that_cannot_be_used_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    manifest = '[kv.gpu]\napi = 1\nsummary = "GPU"\ndevices = ["cuda"]\n'
    write_plugin_package(tmp_path, "check-gpu", {"kv:gpu": "raise ImportError('imported')"}, manifest=manifest)
    registry = PluginRegistry.discover(entry_points_in(tmp_path), {})
    result = check_offer(registry, registry.offers()[0], [CPU])
    assert (result.word, result.findings) == ("no-device", ("needs cuda; here is cpu",))


def test_a_plugin_checks_itself_on_a_device_it_can_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    manifest = '[kv.host]\napi = 1\nsummary = "Host"\ndevices = ["cpu"]\n'
    write_plugin_package(
        tmp_path, "check-host", {"kv:host": BODY + CHECK + "return [device.name]\n"}, manifest=manifest
    )
    registry = PluginRegistry.discover(entry_points_in(tmp_path), {})
    gpu = DeviceInfo(kind="cuda", index=0, name="gpu", memory_bytes=1 << 30, compute_capability="9.0")
    assert check_offer(registry, registry.offers()[0], [gpu, CPU]).findings == ("cpu",)
