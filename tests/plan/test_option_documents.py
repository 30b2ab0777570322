"""The sample file and the manual page in the repository are the ones that the options write."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from ninfer_core.plan.option_documents import MANUAL_FILE, SAMPLE_FILE, manual_page, sample_toml
from ninfer_core.plan.option_sources import load_options
from ninfer_core.plan.options import flag_name, key_name, option_infos, variable_name

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("name", "text"), [(SAMPLE_FILE, sample_toml()), (MANUAL_FILE, manual_page())])
def test_committed_file_is_current(name: str, text: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == text, "run python -m ninfer_core.plan.option_documents"


def test_sample_changes_nothing_as_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "sample.toml"
    path.write_text(sample_toml())
    assert load_options({}, {}, path).origins == {}


def test_every_line_of_the_sample_is_a_legal_value(tmp_path: Path) -> None:
    path = tmp_path / "sample.toml"
    path.write_text(re.sub(r"(?m)^#(?=[a-z])", "", sample_toml()))
    keys = [key for table in tomllib.loads(path.read_text()).values() for key in table]
    assert sorted(keys) == sorted(key_name(name) for name in option_infos())
    assert set(load_options({}, {}, path).origins) == set(option_infos())


@pytest.mark.contract("OPT-47")
def test_manual_has_every_option_once() -> None:
    page = manual_page()
    for name, info in option_infos().items():
        row = next(line for line in page.splitlines() if f"| `{variable_name(name)}` |" in line)
        assert row.startswith(f"| `{flag_name(name)}")
        assert ("not built yet" in row.split(" | ")[6]) is not info.built
        assert info.contract in row
