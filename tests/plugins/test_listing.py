from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ninfer_core.api import KINDS
from ninfer_core.plugins import PluginRegistry
from ninfer_core.plugins.listing import list_plugins
from ninfer_core.plugins.promised import PROMISES, promise_of
from ninfer_core.testing.plugins import entry_points_in, write_plugin_package

CPU = frozenset({"cpu"})
CUDA = frozenset({"cpu", "cuda"})
MANIFEST = """
[kv.plain]
api = 1
summary = "Plain"
[kv.next]
api = 2
summary = "Next"
[kv.needy]
api = 1
summary = "Needy"
modules = ["module_that_is_not_there"]
[kv.gpu]
api = 1
summary = "GPU"
devices = ["cuda"]
"""


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PluginRegistry:
    monkeypatch.syspath_prepend(str(tmp_path))
    names = ("plain", "next", "needy", "gpu", "undeclared")
    write_plugin_package(tmp_path, "list-kv", {f"kv:{name}": "raise SystemExit" for name in names}, manifest=MANIFEST)
    write_plugin_package(tmp_path, "list-blocked", {"spec:blocked": ""})
    return PluginRegistry.discover(entry_points_in(tmp_path), {"NINFER_PLUGINS": "list-kv"})


def test_every_state_is_named_with_its_reason_and_nothing_is_imported(registry: PluginRegistry) -> None:
    lines = {(line.kind, line.name): line for line in list_plugins(registry, None, CPU)}
    assert {name: line.state for (kind, name), line in lines.items() if line.package == "list-kv"} == {
        "plain": "ready",
        "next": "incompatible",
        "needy": "missing",
        "gpu": "no-device",
        "undeclared": "broken",
    }
    assert lines["kv", "plain"].remark == "Plain"
    assert lines["kv", "gpu"].remark == "needs cuda; here is cpu"
    assert lines["kv", "undeclared"].remark == "ninfer.toml has no table [kv.undeclared]"
    assert lines["spec", "blocked"].state == "blocked"
    assert not [name for name in sys.modules if name.startswith("list_kv")]


def test_a_device_plugin_is_ready_on_its_device(registry: PluginRegistry) -> None:
    (line,) = [line for line in list_plugins(registry, "kv", CUDA) if line.name == "gpu"]
    assert line.state == "ready"


def test_lines_are_ordered_by_kind_then_name(registry: PluginRegistry) -> None:
    lines = list_plugins(registry, None, CPU)
    keys = [(KINDS.index(line.kind), line.name) for line in lines]
    assert keys == sorted(keys)
    assert {line.kind for line in list_plugins(registry, "media", CPU)} == {"media"}


def test_a_promised_name_is_listed_until_somebody_offers_it(tmp_path: Path, registry: PluginRegistry) -> None:
    def state_of_int8(registry: PluginRegistry) -> list[str]:
        return [line.state for line in list_plugins(registry, "kv", CPU) if line.name == "int8"]

    assert state_of_int8(registry) == ["not-built"]
    write_plugin_package(tmp_path, "list-promised", {"kv:int8": ""})
    assert state_of_int8(PluginRegistry.discover(entry_points_in(tmp_path), {})) == ["ready"]


def test_a_name_of_two_packages_is_listed_twice_with_how_to_choose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    for package in ("list-one", "list-two"):
        write_plugin_package(tmp_path, package, {"kv:same": ""})
    lines = list_plugins(PluginRegistry.discover(entry_points_in(tmp_path), {}), "kv", CPU)
    remarks = [line.remark for line in lines if line.name == "same"]
    assert remarks == [
        "also offered by list-two 1.0; select it as same@list-one",
        "also offered by list-one 1.0; select it as same@list-two",
    ]


@pytest.mark.contract("OPT-22", "OPT-28")
def test_the_promises_are_names_of_the_contract_that_nothing_offers_yet() -> None:
    assert {(promise.kind, promise.name) for promise in PROMISES} == {
        *(("kv", name) for name in ("int8", "nvfp4", "k8v4")),
        *(("media", name) for name in ("image", "video")),
    }


@pytest.mark.contract("OPT-23")
def test_the_backends_of_the_contract_are_offered() -> None:
    offered = {offer.name for offer in PluginRegistry.discover().offers("spec") if offer.first_party}
    assert offered == {"mtp", "dflash", "dflash2"}
    assert promise_of("kv", "int8") in PROMISES
    assert promise_of("spec", "int8") is None
