"""A third-party package the way its user gets it: built as a wheel, installed, listed, tested, used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ninfer_core.testing.tiny import write_tiny_artifact
from tests.examples.conftest import Run

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugins" / "ninfer-kv-q8row"


def test_it_is_listed_as_ready_beside_the_first_party_formats(run: Run) -> None:
    listed = run("-m", "ninfer_core", "plugins", "list", "--kind", "kv", "--json")
    assert listed.returncode == 0, listed.stderr
    by_name = {line["name"]: line for line in json.loads(listed.stdout)}
    assert by_name["q8row"]["state"] == "ready"
    assert by_name["q8row"]["package"] == "ninfer-kv-q8row"
    assert by_name["bf16"]["state"] == "ready"


def test_it_can_be_kept_out(run: Run) -> None:
    refused = run("-m", "ninfer_core", "plugins", "show", "kv:q8row", NINFER_PLUGINS="off")
    assert refused.returncode == 2
    assert "NINFER_PLUGINS does not allow it" in refused.stderr


def test_it_checks_out(run: Run) -> None:
    checked = run("-m", "ninfer_core", "plugins", "check", "kv:q8row")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stdout == "kv:q8row@ninfer-kv-q8row 0.1.0  ready\n"


@pytest.mark.long
def test_its_own_tests_pass_where_it_is_installed(run: Run) -> None:
    tested = run(
        "-m", "pytest", "-p", "no:cacheprovider", "-c", str(EXAMPLE / "pyproject.toml"), str(EXAMPLE / "tests")
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert " passed" in tested.stdout and "skipped" not in tested.stdout


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tiny_artifact(tmp_path_factory.mktemp("artifact") / "tiny.ninfer"))


@pytest.mark.long
def test_a_plan_with_it_pins_it_and_counts_its_bytes(run: Run, artifact: str) -> None:
    planned = run("-m", "ninfer_core", "plan", artifact, "--device", "cpu", "--kv-dtype", "q8row", "--json")
    assert planned.returncode == 0, planned.stderr
    plan = json.loads(planned.stdout)["plan"]
    (pin,) = [pin for pin in plan["pins"] if pin["kind"] == "kv"]
    assert pin == {"kind": "kv", "name": "q8row", "package": "ninfer-kv-q8row", "version": "0.1.0"}
    attention, capacities = plan["geometry"]["attention"], plan["capacities"]
    (line,) = [line for line in plan["ledger"]["lines"] if line["name"] == "kv_pages"]
    tokens = capacities["kv_pages"] * capacities["page_tokens"]
    row_bytes = attention["head_dim"] + 2
    assert line["bytes"] == tokens * attention["layers"] * attention["kv_heads"] * 2 * row_bytes


@pytest.mark.long
def test_it_generates(run: Run, artifact: str) -> None:
    words = ("-m", "ninfer_core", "generate", artifact, "--device", "cpu", "--kv-dtype", "q8row@ninfer-kv-q8row")
    answered = run(*words, "--prompt", "hello", "--max-new", "12", "--greedy")
    assert answered.returncode == 0, answered.stderr
    assert "12 output tokens" in answered.stderr


@pytest.mark.long
def test_where_it_is_kept_out_nothing_stands_in_for_it(run: Run, artifact: str) -> None:
    words = ("-m", "ninfer_core", "generate", artifact, "--device", "cpu", "--kv-dtype", "q8row", "--prompt", "hello")
    refused = run(*words, NINFER_PLUGINS="off")
    assert refused.returncode == 2
    assert refused.stdout == "" and "q8row" in refused.stderr
