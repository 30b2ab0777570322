from __future__ import annotations

from pathlib import Path

import pytest

from ninfer_core.api import DeviceInfo
from ninfer_core.plugins import PluginRegistry
from ninfer_core.plugins.checking import check_offer
from ninfer_core.testing.plugins import entry_points_in, write_plugin_package

CPU = DeviceInfo(kind="cpu", index=None, name="cpu", memory_bytes=1 << 30, compute_capability=None)
BODY = """
from ninfer_core.api import KVLayout, KVPlane, PluginIncompatible, hookimpl

class Codec:
    def __init__(self, layout): self.layout = layout
    def encode(self, part, values): return (values.float(),)
    def decode(self, part, planes, dtype): return planes[0].to(dtype)

@hookimpl
def ninfer_kv_layout(head_dim):
    planes = [KVPlane(part=part, name="x", dtype="float32", elements=head_dim) for part in ("key", "value")]
    return KVLayout(planes=tuple(planes))

@hookimpl
def ninfer_kv_codec(layout): return Codec(layout)

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


@pytest.mark.parametrize(
    ("source", "word", "finding"),
    [
        (
            "ninfer_kv_layout = hookimpl(lambda head_dim: 1)",
            "broken",
            "from ninfer_kv_layout: int, where KVLayout belongs",
        ),
        ("ninfer_kv_codec = hookimpl(lambda layout: 1)", "broken", "from ninfer_kv_codec: int without layout, encode"),
        (
            "ninfer_kv_codec = hookimpl(lambda layout: Codec(ninfer_kv_layout(7)))",
            "broken",
            "from ninfer_kv_codec: a codec of another layout",
        ),
        ("Codec.encode = lambda self, part, values: values", "broken", "encode of a key: Tensor, where a tuple"),
        ("Codec.encode = lambda *_: (1, 2)", "broken", "encode of a key: 2 tensors, where the layout has 1 planes"),
        ("Codec.encode = lambda *_: (1,)", "broken", "encode of a key: int, where a tensor belongs"),
        (
            "Codec.encode = lambda self, part, values: (values[..., :3],)",
            "broken",
            "tensor 0 is float32 [2, 2, 3], not float32 [2, 2, 64]",
        ),
        (
            "Codec.decode = lambda self, part, planes, dtype: planes[0].double()",
            "broken",
            "decode of a key: tensor 0 is float64 [2, 2, 64], not float32 [2, 2, 64]",
        ),
        (
            "def quit(*_): raise SystemExit(4)\nCodec.decode = quit",
            "broken",
            "failed in its codec's decode of a key: SystemExit: 4",
        ),
        (
            "@hookimpl\ndef ninfer_kv_layout(head_dim): raise PluginIncompatible(f'{head_dim} is no size of mine')",
            "failing",
            "256 is no size of mine",
        ),
    ],
)
def test_what_a_format_gives_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, word: str, finding: str
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    write_plugin_package(tmp_path, "check-it", {"kv:it": BODY + source}, import_name=f"trial_{tmp_path.name}")
    registry = PluginRegistry.discover(entry_points_in(tmp_path), {})
    result = check_offer(registry, registry.offers()[0], [CPU])
    (found,) = result.findings
    assert result.word == word and finding in found


def test_a_format_may_refuse_some_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    picky = BODY.replace(
        "    return KVLayout", "    if head_dim != 128: raise PluginIncompatible('128 alone')\n    return KVLayout"
    )
    write_plugin_package(tmp_path, "check-picky", {"kv:picky": picky})
    registry = PluginRegistry.discover(entry_points_in(tmp_path), {})
    assert check_offer(registry, registry.offers()[0], [CPU]).word == "ready"


def test_a_family_is_asked_what_needs_no_artifact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    hooks = ("match", "geometry", "inventory", "resident", "workspace", "frontend", "output_format", "build")
    source = "from ninfer_core.api import hookimpl\n" + "".join(
        f"@hookimpl\ndef ninfer_family_{hook}(): return 1\n" for hook in hooks
    )
    write_plugin_package(tmp_path, "check-family", {"family:it": source})
    registry = PluginRegistry.discover(entry_points_in(tmp_path), {})
    (found,) = check_offer(registry, registry.offers()[0], [CPU]).findings
    assert "something wrong from ninfer_family_output_format: int without decoder, parser" in found
