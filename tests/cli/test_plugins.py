from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ninfer_core.api import KINDS
from ninfer_core.cli.main import main
from ninfer_core.testing.plugins import write_plugin_package

CODEC = """
from ninfer_core.api import hookimpl

@hookimpl
def ninfer_kv_layout(head_dim): return 1

@hookimpl
def ninfer_kv_codec(layout): return 1
"""
SELF_CHECK = "\n@hookimpl\ndef ninfer_check(device): return ['no table file', 'no cache']\n"

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `ninfer plugins ...` with the packages of tmp_path installed beside the real ones."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("NINFER_PLUGINS", raising=False)

    def call(*words: str) -> tuple[int, str, str]:
        code = main(["plugins", *words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_list_is_a_table_of_every_kind(run: Run) -> None:
    code, out, _ = run("list")
    header, *rows = out.splitlines()
    assert code == 0
    assert header.split() == ["KIND", "NAME", "STATE", "PACKAGE", "VERSION", "SUMMARY"]
    words = [row.split()[:3] for row in rows]
    built, promised = (("kv", "bf16"), ("kv", "fp8")), (("kv", "int8"), ("media", "image"))
    for expected in [[*each, "ready"] for each in built] + [[*each, "not-built"] for each in promised]:
        assert expected in words
    assert {kind for kind, _, _ in words} == set(KINDS)


def test_list_can_be_read_by_scripts_and_limited_to_a_kind(run: Run) -> None:
    code, out, _ = run("list", "--kind", "media", "--json")
    lines = json.loads(out)
    assert code == 0
    assert [(line["name"], line["state"], line["version"]) for line in lines] == [
        ("image", "not-built", None),
        ("video", "not-built", None),
    ]
    assert set(lines[0]) == {"kind", "name", "state", "package", "version", "summary", "reason"}


def test_an_unknown_kind_is_a_usage_error(run: Run) -> None:
    code, _, err = run("list", "--kind", "specs")
    assert code == 2 and "'specs' is not one of" in err


def test_list_imports_nothing_until_it_is_told_to_check(tmp_path: Path, run: Run) -> None:
    write_plugin_package(tmp_path, "cli-bad", {"kv:bad": "raise ImportError('no driver\\nmore')"})
    write_plugin_package(tmp_path, "cli-failing", {"kv:failing": CODEC + SELF_CHECK})

    def states(*words: str) -> dict[str, tuple[str, str]]:
        lines = json.loads(run("list", "--kind", "kv", "--json", *words)[1])
        return {line["name"]: (line["state"], line["reason"]) for line in lines}

    assert states()["bad"] == states()["failing"] == ("ready", "")
    checked = states("--check")
    assert checked["bad"] == ("broken", "kv plugin 'bad' from cli-bad 1.0 failed to import: no driver")
    assert checked["failing"] == ("failing", "no table file")
    assert checked["bf16"] == ("ready", "")


def test_show_prints_the_manifest_and_the_hooks(tmp_path: Path, run: Run) -> None:
    manifest = '[kv.shown]\napi = 1\nsummary = "Shown"\nprovides = ["kv.x"]\nmodules = ["json"]\n'
    write_plugin_package(tmp_path, "cli-shown", {"kv:shown": CODEC}, version="3.1", manifest=manifest)
    code, out, _ = run("show", "kv:shown")
    fields = {line[:14].strip(): line[14:].strip() for line in out.splitlines()}
    assert code == 0
    assert fields["plugin"] == "kv:shown@cli-shown"
    assert fields["version"] == "3.1"
    assert fields["select with"] == "--kv-dtype shown"
    assert fields["provides"] == "kv.x" and fields["requires"] == "-"
    assert fields["hooks"] == "ninfer_kv_codec, ninfer_kv_layout"


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("bf16", "'bf16' is no plugin reference; write KIND:NAME"),
        ("kv:", "'kv:' is no plugin reference"),
        ("kv:bf-16", "no kv plugin 'bf-16'; did you mean 'bf16'?"),
        ("kvs:bf16", "no kind of plugin 'kvs'; did you mean 'kv'?"),
        ("media:image", "media plugin 'image' is not built yet"),
    ],
)
@pytest.mark.parametrize("command", ["show", "check"])
def test_a_wrong_reference_is_refused_with_the_way_out(run: Run, command: str, reference: str, message: str) -> None:
    code, _, err = run(command, reference)
    assert code == 2
    assert err.startswith("plugin_unknown: ") and message in err


def test_check_says_what_it_found_and_fails(tmp_path: Path, run: Run) -> None:
    write_plugin_package(tmp_path, "cli-failing2", {"kv:failing2": CODEC + SELF_CHECK})
    code, out, _ = run("check", "kv:failing2")
    assert code == 1
    assert out == "kv:failing2@cli-failing2 1.0  failing\n  - no table file\n  - no cache\n"


def test_check_looks_at_a_plugin_that_could_not_be_selected(tmp_path: Path, run: Run) -> None:
    manifest = '[kv.newer]\napi = 7\nsummary = "Newer"\n'
    write_plugin_package(tmp_path, "cli-newer", {"kv:newer": CODEC}, manifest=manifest)
    code, out, _ = run("check", "kv:newer@CLI_newer")
    assert code == 1
    assert "incompatible" in out and "asks for plugin API 7" in out


def test_check_of_everything_passes_over_the_first_party_plugins(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NINFER_PLUGINS", "off")
    code, out, _ = run("check")
    assert code == 0, out
    assert "kv:bf16@ninfer-kvformats" in out


def test_a_broken_plugin_that_is_asked_for_is_one_line_and_its_traceback_on_request(tmp_path: Path, run: Run) -> None:
    write_plugin_package(tmp_path, "cli-broken", {"kv:broken": "import module_that_is_not_there"})
    code, out, err = run("show", "kv:broken")
    line = "plugin_broken: kv plugin 'broken' from cli-broken 1.0 failed to import: "
    assert (code, out) == (2, "")
    assert err == line + "No module named 'module_that_is_not_there'\n"
    _, _, err = run("show", "kv:broken", "--traceback")
    assert "ModuleNotFoundError" in err and err.splitlines()[-1].startswith(line)
