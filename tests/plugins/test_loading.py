from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ninfer_core.api import ArtifactInvalid, PluginBroken
from ninfer_core.plugins import LoadedPlugin, PluginRegistry
from ninfer_core.testing.plugins import entry_points_in, write_plugin_package

HEADER = "from ninfer_core.api import *\nfrom ninfer_core.api import hookimpl\n"
LAYOUT = "@hookimpl\ndef ninfer_kv_layout(head_dim):\n    return KVLayout(planes=())\n"

Load = Callable[[str], LoadedPlugin]


def planes(elements: object) -> str:
    """Source of a valid layout."""
    plane = f"dtype='int8', elements={elements}"
    return f"KVLayout(planes=(KVPlane(part='key', name='k', {plane}), KVPlane(part='value', name='v', {plane})))"


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Load:
    """Makes a kv plugin of a module's source and loads it."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def run(source: str) -> LoadedPlugin:
        # A package of its own for each test: modules stay imported for the whole run.
        package = f"loading-{abs(hash(request.node.nodeid))}"
        write_plugin_package(tmp_path, package, {"kv:it": HEADER + source})
        registry = PluginRegistry.discover(entry_points_in(tmp_path), {})
        return registry.load(registry.select("kv", "it"))

    return run


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("import module_that_is_not_there\n", "No module named 'module_that_is_not_there'"),
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
        ("raise ValueError\n", "ValueError"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
        ("class Skipped(BaseException): ...\nraise Skipped('no GPU')\n", "Skipped: no GPU"),
        ("def broken(:\n", "SyntaxError"),
        ("class Mute(Exception):\n    def __str__(self): return 1 / 0\nraise Mute\n", "Mute"),
    ],
)
def test_a_module_that_fails_to_import_is_broken(load: Load, source: str, cause: str) -> None:
    with pytest.raises(PluginBroken, match=f"failed to import: {cause}"):
        load(source)


def test_what_a_module_prints_is_no_output_of_a_command(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    load("print('welcome')\n" + LAYOUT)
    assert capsys.readouterr() == ("", "welcome\n")


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        (LAYOUT + "@hookimpl\ndef ninfer_kv_laiout(head_dim): ...\n", "unknown hook 'ninfer_kv_laiout'"),
        ("@hookimpl\ndef ninfer_family_match(header): ...\n", "unknown hook 'ninfer_family_match'"),
        ("@hookimpl\ndef ninfer_kv_layout(head_dimension): ...\n", "hook 'ninfer_kv_layout'"),
        ("@hookimpl\ndef ninfer_kv_layout(head_dim, pages=3): ...\n", "ninfer_kv_layout has no argument 'pages'"),
        (LAYOUT + "def ninfer_kv_codec(layout): ...\n", "defines ninfer_kv_codec without @hookimpl"),
        ("SETTING = 1\n", "implements no hook of its kind"),
    ],
)
def test_a_module_that_breaks_the_hook_contract_is_broken(load: Load, source: str, cause: str) -> None:
    with pytest.raises(PluginBroken) as error:
        load(source)
    assert cause in error.value.message


def test_a_hook_may_take_fewer_arguments_than_its_spec(load: Load) -> None:
    plugin = load(f"@hookimpl\ndef ninfer_kv_layout():\n    return {planes(7)}\n")
    assert plugin.hook.ninfer_kv_layout(head_dim=64).bytes == 14


def test_calling_a_hook_that_is_not_implemented_says_which_plugin_lacks_it(load: Load) -> None:
    plugin = load(LAYOUT)
    assert plugin.implements("ninfer_kv_layout") and not plugin.implements("ninfer_kv_codec")
    assert plugin.missing_hooks() == ("ninfer_kv_codec",)
    with pytest.raises(PluginBroken, match=r"kv plugin 'it' from loading-.* does not implement ninfer_kv_codec"):
        plugin.hook.ninfer_kv_codec(layout=None)


def test_a_hook_that_gives_nothing_back_is_broken(load: Load) -> None:
    with pytest.raises(PluginBroken, match="gave nothing back from ninfer_kv_layout"):
        load("@hookimpl\ndef ninfer_kv_layout(head_dim): ...\n").hook.ninfer_kv_layout(head_dim=64)


def test_an_optional_hook_may_be_absent_or_give_nothing_back(load: Load) -> None:
    plugin = load(LAYOUT + "@hookimpl\ndef ninfer_check(device): ...\n")
    assert plugin.hook.ninfer_check(device=None) is None
    assert "ninfer_check" in plugin.hooks()


def test_an_absent_optional_hook_gives_none(load: Load) -> None:
    assert load(LAYOUT).hook.ninfer_check(device=None) is None


def test_an_exception_in_a_hook_becomes_a_broken_plugin_with_its_cause(load: Load) -> None:
    plugin = load("@hookimpl\ndef ninfer_kv_layout(head_dim):\n    return {}[head_dim]\n")
    with pytest.raises(PluginBroken, match="failed in ninfer_kv_layout: KeyError: 64") as error:
        plugin.hook.ninfer_kv_layout(head_dim=64)
    assert isinstance(error.value.__cause__, KeyError)


@pytest.mark.parametrize("raised", ["SystemExit(7)", "GeneratorExit(7)"])
def test_a_hook_does_not_end_the_process(load: Load, raised: str) -> None:
    plugin = load(f"@hookimpl\ndef ninfer_kv_layout(head_dim):\n    raise {raised}\n")
    with pytest.raises(PluginBroken, match=f"failed in ninfer_kv_layout: {raised[:-3]}: 7"):
        plugin.hook.ninfer_kv_layout(head_dim=64)


def test_a_keyboard_interrupt_in_a_hook_is_the_users(load: Load) -> None:
    plugin = load("@hookimpl\ndef ninfer_kv_layout(head_dim):\n    raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        plugin.hook.ninfer_kv_layout(head_dim=64)


def test_a_typed_error_of_a_hook_passes_unchanged(load: Load) -> None:
    plugin = load("@hookimpl\ndef ninfer_kv_layout(head_dim):\n    raise ArtifactInvalid('a.ninfer', ['odd'])\n")
    with pytest.raises(ArtifactInvalid):
        plugin.hook.ninfer_kv_layout(head_dim=64)


def test_a_name_that_is_no_hook_of_the_kind_is_our_own_mistake(load: Load) -> None:
    with pytest.raises(AttributeError, match="ninfer_family_match is no hook of KVHooks"):
        load(LAYOUT).hook.ninfer_family_match(header=None)


def test_a_target_may_be_an_object_in_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    source = (
        HEADER + "class Plugin:\n    @hookimpl\n    def ninfer_kv_layout(self, head_dim):\n"
        f"        return {planes('head_dim')}\n"
    )
    write_plugin_package(tmp_path, "loading-object", {"kv:it": source + "plugin = Plugin()\n"})
    metadata = tmp_path / "loading_object-1.0.dist-info" / "entry_points.txt"
    metadata.write_text("[ninfer.kv]\nit = loading_object.kv_it:plugin\n")
    registry = PluginRegistry.discover(entry_points_in(tmp_path), {})
    assert registry.load(registry.select("kv", "it")).hook.ninfer_kv_layout(head_dim=8).bytes == 16


def test_plugins_do_not_see_each_others_hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    hook = "@hookimpl\ndef ninfer_kv_layout(head_dim):\n    return "
    plugins = {f"kv:n{n}": f"{HEADER}{hook}{planes(n)}\n" for n in (1, 2)}
    write_plugin_package(tmp_path, "loading-two", plugins)
    registry = PluginRegistry.discover(entry_points_in(tmp_path), {})
    loaded = [registry.load(offer) for offer in registry.offers()]
    assert [plugin.hook.ninfer_kv_layout(head_dim=64).bytes for plugin in loaded] == [2, 4]
