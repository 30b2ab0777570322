"""A third party's drafter the way its user gets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ninfer_core.testing.tiny import write_tiny_artifact
from tests.examples.conftest import Run

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugins" / "ninfer-spec-ngram"


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tiny_artifact(tmp_path_factory.mktemp("artifact") / "tiny.ninfer"))


def test_it_is_listed_and_checks_out(run: Run) -> None:
    listed = run("-m", "ninfer_core", "plugins", "list", "--kind", "spec", "--json")
    assert listed.returncode == 0, listed.stderr
    (line,) = [line for line in json.loads(listed.stdout) if line["name"] == "ngram"]
    assert (line["state"], line["package"]) == ("ready", "ninfer-spec-ngram")
    checked = run("-m", "ninfer_core", "plugins", "check", "spec:ngram")
    assert checked.stdout == "spec:ngram@ninfer-spec-ngram 0.1.0  ready\n", checked.stdout + checked.stderr


@pytest.mark.long
def test_its_own_tests_pass_where_it_is_installed(run: Run) -> None:
    tested = run(
        "-m", "pytest", "-p", "no:cacheprovider", "-c", str(EXAMPLE / "pyproject.toml"), str(EXAMPLE / "tests")
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert " passed" in tested.stdout


def test_a_plan_with_it_pays_for_its_rounds(run: Run, artifact: str) -> None:
    words = ("-m", "ninfer_core", "plan", artifact, "--device", "cpu", "--spec", "ngram", "--json")
    planned = run(*words, "--draft-tokens", "11")
    assert planned.returncode == 0, planned.stderr
    plan = json.loads(planned.stdout)["plan"]
    (pin,) = [pin for pin in plan["pins"] if pin["kind"] == "spec"]
    assert pin == {"kind": "spec", "name": "ngram", "package": "ninfer-spec-ngram", "version": "0.1.0"}
    assert plan["capacities"]["draft_tokens"] == 11
    assert {line["name"]: line["bytes"] for line in plan["ledger"]["lines"]}["drafter_state"] == 0
    refused = run(*words, "--draft-tokens", "16")
    assert refused.returncode == 2 and "15" in refused.stderr


def test_it_changes_no_answer(run: Run, artifact: str) -> None:
    words = ("-m", "ninfer_core", "generate", artifact, "--device", "cpu", "--prompt", "hello hello", "--max-new", "16")
    plain, drafted = (run(*words, "--greedy", *more) for more in ((), ("--spec", "ngram")))
    assert drafted.returncode == 0, drafted.stderr
    # What a random model says it may say as reasoning, which goes where the times go: they are in the last line.
    said = [answer.stdout + answer.stderr.rpartition(" prompt tokens at")[0] for answer in (plain, drafted)]
    assert said[0] == said[1] and "16 output tokens" in drafted.stderr
