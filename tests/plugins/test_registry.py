from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ninfer_core.api import (
    PROVISIONAL_KINDS,
    PluginAmbiguous,
    PluginBroken,
    PluginIncompatible,
    PluginPin,
    PluginProvisional,
    PluginUnknown,
)
from ninfer_core.plugins import PluginRegistry
from ninfer_core.plugins.registry import OPTION_BY_KIND
from ninfer_core.testing.plugins import entry_points_in, write_plugin_package

CODEC = """
from ninfer_core.api import KVLayout, KVPlane, hookimpl

@hookimpl
def ninfer_kv_layout(head_dim):
    return KVLayout(
        planes=tuple(KVPlane(part=part, name=part, dtype="int8", elements=head_dim) for part in ("key", "value"))
    )

@hookimpl
def ninfer_kv_codec(layout):
    return object()
"""

Discover = Callable[..., PluginRegistry]


@pytest.fixture
def discover(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Discover:
    """Discovers what the test wrote into tmp_path, and nothing that happens to be installed."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def run(**environment: str) -> PluginRegistry:
        return PluginRegistry.discover(entry_points_in(tmp_path), environment)

    return run


def test_an_offer_is_read_from_metadata_without_importing_it(tmp_path: Path, discover: Discover) -> None:
    manifest = '[kv.rows]\napi = 1\nsummary = "Rows"\nprovides = ["kv.rollback"]\ndevices = ["cpu"]\n'
    module = write_plugin_package(
        tmp_path, "ninfer-kv-rows", {"kv:rows": "raise SystemExit"}, version="2.3", manifest=manifest
    )
    (offer,) = discover().offers()
    assert (offer.kind, offer.name, offer.package, offer.version) == ("kv", "rows", "ninfer-kv-rows", "2.3")
    assert offer.target == f"{module}.kv_rows"
    assert offer.manifest is not None
    assert (offer.manifest.summary, offer.manifest.provides) == ("Rows", ("kv.rollback",))
    assert not offer.first_party
    assert not [name for name in sys.modules if name.startswith(module)]


def test_offers_are_ordered_and_filtered_by_kind(tmp_path: Path, discover: Discover) -> None:
    write_plugin_package(tmp_path, "pkg-b", {"spec:b": "", "kv:b": "", "protocol:b": ""})
    write_plugin_package(tmp_path, "pkg-a", {"kv:b": "", "kv:a": ""})
    registry = discover()
    found = [(offer.kind, offer.name, offer.package) for offer in registry.offers()]
    assert found == [
        ("protocol", "b", "pkg-b"),
        ("kv", "a", "pkg-a"),
        ("kv", "b", "pkg-a"),
        ("kv", "b", "pkg-b"),
        ("spec", "b", "pkg-b"),
    ]
    assert [offer.name for offer in registry.offers("kv")] == ["a", "b", "b"]


def test_a_plugin_is_selected_loaded_once_and_pinned(tmp_path: Path, discover: Discover) -> None:
    write_plugin_package(tmp_path, "acme-load", {"kv:load": CODEC}, version="0.4")
    registry = discover()
    offer = registry.select("kv", "load")
    plugin = registry.load(offer)
    assert plugin is registry.load(registry.select("kv", "load@acme_load"))
    assert plugin.pin == PluginPin(kind="kv", name="load", package="acme-load", version="0.4")
    assert plugin.hook.ninfer_kv_layout(head_dim=64).bytes == 128


def test_two_registries_share_no_loaded_plugin(tmp_path: Path, discover: Discover) -> None:
    write_plugin_package(tmp_path, "acme-separate", {"kv:separate": CODEC})
    first, second = discover(), discover()
    assert first.load(first.select("kv", "separate")) is not second.load(second.select("kv", "separate"))


def test_an_unknown_name_is_an_error_with_the_near_miss(tmp_path: Path, discover: Discover) -> None:
    write_plugin_package(tmp_path, "acme-names", {"spec:lookahead": "", "spec:suffix": ""})
    with pytest.raises(PluginUnknown, match=r"no spec plugin 'look-ahead'; did you mean 'lookahead'.*, suffix"):
        discover().select("spec", "look-ahead")
    with pytest.raises(PluginUnknown, match="no spec plugin 'zzz'; installed: lookahead, suffix"):
        discover().select("spec", "zzz")


def test_an_unknown_kind_is_an_error_with_the_near_miss(discover: Discover) -> None:
    with pytest.raises(PluginUnknown, match="no kind of plugin 'specs'; did you mean 'spec'"):
        discover().select("specs", "mtp")


def test_a_promised_name_is_said_to_be_not_built(discover: Discover) -> None:
    with pytest.raises(PluginUnknown, match="kv plugin 'int8' is not built yet; no kv plugin is installed"):
        discover().select("kv", "int8")


def test_one_name_from_two_packages_must_be_chosen_by_package(
    tmp_path: Path, discover: Discover, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where another test has imported the real package of this name, its manifest would be found instead.
    monkeypatch.delitem(sys.modules, "ninfer_kvformats", raising=False)
    write_plugin_package(tmp_path, "acme-fp8", {"kv:fp8": ""}, version="1.1")
    write_plugin_package(tmp_path, "ninfer-kvformats", {"kv:fp8": ""}, version="0.2")
    registry = discover()
    with pytest.raises(PluginAmbiguous) as error:
        registry.select("kv", "fp8")
    for expected in ("fp8@acme-fp8 (1.1)", "fp8@ninfer-kvformats (0.2)", "--kv-dtype fp8@"):
        assert expected in error.value.message
    assert registry.select("kv", "fp8@acme-fp8").package == "acme-fp8"
    assert registry.select("kv", "fp8@Ninfer_KVFormats").first_party


@pytest.mark.parametrize("kind", sorted(PROVISIONAL_KINDS))
def test_kinds_without_settled_hooks_are_closed_to_others(kind: str, tmp_path: Path, discover: Discover) -> None:
    manifest = f'[{kind}.new]\napi = 2\nsummary = "New"\n'
    write_plugin_package(tmp_path, "acme-early", {f"{kind}:early": "", f"{kind}:new": ""})
    write_plugin_package(tmp_path, "acme-next", {f"{kind}:new": ""}, manifest=manifest)
    write_plugin_package(tmp_path, "ninfer-media", {f"{kind}:ours": ""})
    registry = discover()
    for name in ("early", "new@acme-next"):
        with pytest.raises(PluginProvisional, match=f"hooks of kind {kind} are provisional.*{PROVISIONAL_KINDS[kind]}"):
            registry.select(kind, name)
    assert registry.select(kind, "ours").first_party


def test_a_package_that_does_not_offer_the_name_is_an_error(tmp_path: Path, discover: Discover) -> None:
    write_plugin_package(tmp_path, "acme-one", {"kv:one": CODEC})
    with pytest.raises(PluginUnknown, match="no package 'other' offers the kv plugin 'one'; there is one@acme-one"):
        discover().select("kv", "one@other")


def test_a_package_that_offers_one_name_twice_cannot_be_chosen(tmp_path: Path, discover: Discover) -> None:
    write_plugin_package(tmp_path, "acme-twice", {"kv:twice": CODEC})
    metadata = tmp_path / "acme_twice-1.0.dist-info" / "entry_points.txt"
    metadata.write_text("[ninfer.kv]\ntwice = acme_twice.kv_twice\ntwice = acme_twice.other\n")
    with pytest.raises(PluginAmbiguous, match="acme-twice offers the kv plugin 'twice' more than once"):
        discover().select("kv", "twice@acme-twice")


@pytest.mark.parametrize("api", [0, 2, 99])
def test_another_api_version_is_refused_by_name_whatever_else_the_manifest_says(
    tmp_path: Path, discover: Discover, api: int
) -> None:
    manifest = f'[kv.old]\napi = {api}\nsummary = "Old"\na_field_of_that_version = 1\n'
    write_plugin_package(tmp_path, "acme-old", {"kv:old": CODEC}, manifest=manifest)
    with pytest.raises(PluginIncompatible, match=f"acme-old 1.0 .*asks for plugin API {api}; .*plugin API 1"):
        discover().select("kv", "old")


@pytest.mark.parametrize("module", ["ninfer_absent_module", "json.absent", "absent_top.inner"])
def test_a_module_that_is_not_installed_makes_a_plugin_incompatible(
    tmp_path: Path, discover: Discover, module: str
) -> None:
    manifest = f'[kv.needy]\napi = 1\nsummary = "Needy"\nmodules = ["json.decoder", "{module}"]\n'
    write_plugin_package(tmp_path, "acme-needy", {"kv:needy": CODEC}, manifest=manifest)
    with pytest.raises(PluginIncompatible, match=f"needs {module}, not installed"):
        discover().select("kv", "needy")


def test_looking_for_a_dotted_module_does_not_import_its_parent(tmp_path: Path, discover: Discover) -> None:
    parent = tmp_path / "parent_that_must_not_run"
    parent.mkdir()
    (parent / "__init__.py").write_text("raise RuntimeError('imported')")
    (parent / "inner.py").write_text("")
    manifest = '[kv.dotted]\napi = 1\nsummary = "Dotted"\nmodules = ["parent_that_must_not_run.inner"]\n'
    write_plugin_package(tmp_path, "acme-dotted", {"kv:dotted": CODEC}, manifest=manifest)
    assert discover().select("kv", "dotted").name == "dotted"


def test_a_plugin_for_another_device_is_incompatible(tmp_path: Path, discover: Discover) -> None:
    manifest = '[kv.gpu]\napi = 1\nsummary = "GPU"\ndevices = ["cuda"]\n'
    write_plugin_package(tmp_path, "acme-gpu", {"kv:gpu": CODEC}, manifest=manifest)
    registry = discover()
    with pytest.raises(PluginIncompatible, match="needs cuda; here is cpu"):
        registry.select("kv", "gpu", "cpu")
    assert registry.select("kv", "gpu", "cuda") == registry.select("kv", "gpu")


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        ("", "has no ninfer.toml"),
        ("[kv.other]\napi = 1\nsummary = 'x'\n", r"no table \[kv.faulty\]"),
        ("[kv.faulty]\nsummary = 'x'\n", "missing required field `api`"),
        ("[kv.faulty]\napi = 1\n", "missing required field `summary`"),
        ("[kv.faulty]\napi = 1\nsummary = 'x'\nprovide = []\n", "unknown field `provide`"),
        ("[kv.faulty]\napi = 1\nsummary = 'x'\ndevices = ['tpu']\n", "devices may be cpu and cuda, not tpu"),
        ("[kv.faulty\n", "cannot be read"),
        ("kv = 3\n", r"no table \[kv.faulty\]"),
        ("# " + "x" * 70_000, "larger than 65536 bytes"),
        (f"deep = {'[' * 3000}{']' * 3000}", "cannot be read: maximum recursion depth"),
        ("long = " + "1" * 5000, "cannot be read: Exceeds the limit"),
    ],
)
def test_a_wrong_manifest_breaks_only_the_plugin_it_belongs_to(
    tmp_path: Path, discover: Discover, manifest: str, problem: str
) -> None:
    write_plugin_package(tmp_path, "acme-faulty", {"kv:faulty": CODEC}, manifest=manifest)
    if not manifest:
        assert not (tmp_path / "acme_faulty" / "ninfer.toml").exists()
    write_plugin_package(tmp_path, "acme-sound", {"kv:sound": CODEC})
    registry = discover()
    assert registry.select("kv", "sound").manifest_problem is None
    with pytest.raises(PluginBroken, match=problem):
        registry.select("kv", "faulty")


def test_a_plugin_whose_package_is_gone_is_broken(tmp_path: Path, discover: Discover) -> None:
    module = write_plugin_package(tmp_path, "acme-gone", {"kv:gone": CODEC})
    (tmp_path / module).rename(tmp_path / "elsewhere_gone")
    with pytest.raises(PluginBroken, match="no module 'acme_gone' can be found"):
        discover().select("kv", "gone")


@pytest.mark.parametrize("target", ["", "!!", "..acme_odd"])
def test_an_entry_point_that_names_no_module_is_broken(tmp_path: Path, discover: Discover, target: str) -> None:
    write_plugin_package(tmp_path, "acme-odd", {"kv:odd": CODEC})
    (tmp_path / "acme_odd-1.0.dist-info" / "entry_points.txt").write_text(f"[ninfer.kv]\nodd = {target}\n")
    with pytest.raises(PluginBroken, match=re.escape(f"its entry point is {target!r}, which names no module")):
        discover().select("kv", "odd")


@pytest.mark.parametrize("metadata", [None, b"", b"\n", b"Name: \xff\n"])
def test_what_is_left_of_a_package_that_was_removed_by_half_breaks_no_listing(
    tmp_path: Path, discover: Discover, metadata: bytes | None
) -> None:
    module = write_plugin_package(tmp_path, "acme-half", {"kv:half": CODEC})
    written = tmp_path / f"{module}-1.0.dist-info" / "METADATA"
    written.unlink() if metadata is None else written.write_bytes(metadata)
    (offer,) = discover().offers()
    assert (offer.package, offer.version) == (module, "unknown")


@pytest.mark.parametrize("listed", [b"\xff[ninfer.kv]\nx = m\n", b"[ninfer.kv]\nnothing\n"])
def test_a_list_of_entry_points_that_cannot_be_read_takes_nothing_away_from_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: bytes
) -> None:
    for package in ("acme-garbled", "acme-sound"):
        write_plugin_package(tmp_path, package, {f"kv:{package}": CODEC})
    (tmp_path / "acme_garbled-1.0.dist-info" / "entry_points.txt").write_bytes(listed)
    monkeypatch.syspath_prepend(str(tmp_path))
    names = [offer.name for offer in PluginRegistry.discover(environment={}).offers()]
    assert "acme-sound" in names and "fp8" in names and "acme-garbled" not in names
    assert len(names) == len(set(names))


def test_entry_points_of_other_groups_are_no_offers(tmp_path: Path, discover: Discover) -> None:
    write_plugin_package(tmp_path, "acme-command", {"command:bench": "", "kv:only": CODEC})
    assert [offer.name for offer in discover().offers()] == ["only"]


def test_a_broken_plugin_that_is_not_selected_harms_nobody(tmp_path: Path, discover: Discover) -> None:
    write_plugin_package(tmp_path, "acme-bad", {"kv:bad": "raise ImportError('libcudart.so.13 not found\\nmore')"})
    write_plugin_package(tmp_path, "acme-good", {"kv:good": CODEC})
    registry = discover()
    assert registry.load(registry.select("kv", "good")).hook.ninfer_kv_layout(head_dim=64) is not None
    with pytest.raises(PluginBroken) as error:
        registry.load(registry.select("kv", "bad"))
    assert error.value.message == "kv plugin 'bad' from acme-bad 1.0 failed to import: libcudart.so.13 not found"
    assert error.value.exit_code == 2


class TestTrust:
    @pytest.fixture(autouse=True)
    def packages(self, tmp_path: Path) -> None:
        write_plugin_package(tmp_path, "ninfer-kvformats", {"kv:own": CODEC}, import_name="first_party_trust")
        write_plugin_package(tmp_path, "acme-kv", {"kv:theirs": CODEC})
        write_plugin_package(tmp_path, "other.kv", {"kv:others": CODEC})

    @pytest.mark.parametrize(
        ("setting", "allowed"),
        [
            ("", ["others", "own", "theirs"]),
            ("off", ["own"]),
            (" OFF ", ["own"]),
            ("acme-kv", ["own", "theirs"]),
            ("Acme_KV, other-kv", ["others", "own", "theirs"]),
        ],
    )
    def test_ninfer_plugins_names_the_packages_that_count(
        self, discover: Discover, setting: str, allowed: list[str]
    ) -> None:
        registry = discover(NINFER_PLUGINS=setting)
        assert [offer.name for offer in registry.offers()] == allowed
        assert sorted([offer.name for offer in registry.blocked()] + allowed) == ["others", "own", "theirs"]

    def test_unset_allows_everything(self, discover: Discover) -> None:
        assert len(discover().offers()) == 3

    def test_a_blocked_plugin_is_refused_with_the_way_out(self, discover: Discover) -> None:
        with pytest.raises(PluginUnknown, match="installed but NINFER_PLUGINS does not allow it; add acme-kv"):
            discover(NINFER_PLUGINS="off").select("kv", "theirs")

    def test_a_named_package_that_offers_nothing_is_an_error_at_once(self, discover: Discover) -> None:
        with pytest.raises(PluginUnknown, match="'acme-vk', which offers no plugin here; did you mean 'acme-kv'"):
            discover(NINFER_PLUGINS="acme-vk")


def test_every_kind_names_the_option_that_selects_it() -> None:
    from ninfer_core.api import KINDS
    from ninfer_core.api.hooks import SPECS_BY_KIND

    assert set(OPTION_BY_KIND) == set(KINDS) == set(SPECS_BY_KIND)


def test_the_installed_first_party_plugins_are_all_usable() -> None:
    registry = PluginRegistry.discover(environment={"NINFER_PLUGINS": "off"})
    offers = registry.offers()
    assert {(offer.kind, offer.name) for offer in offers} >= {
        ("protocol", "openai-chat"),
        ("family", "qwen-hybrid"),
        ("kv", "bf16"),
    }
    for offer in offers:
        assert registry.select(offer.kind, offer.reference) == offer
