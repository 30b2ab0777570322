"""Every line of the serving contract has tests or an owner, every mark names a line, and the page says so."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
OWNER = re.compile(r"(a later issue|nothing owed): .+")


@pytest.fixture(scope="module")
def page() -> ModuleType:
    spec = importlib.util.spec_from_file_location("contract_page", ROOT / "tools" / "contract_page.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_every_line_has_tests_or_an_owner(page: ModuleType) -> None:
    tests = page.marked_tests()
    assert [line.id for line in page.contract_lines() if line.id not in tests and not line.owner] == []


def test_every_line_is_there_once_with_a_known_kind_of_owner(page: ModuleType) -> None:
    lines = page.contract_lines()
    assert len({line.id for line in lines}) == len(lines)
    assert [line.owner for line in lines if line.owner and not OWNER.fullmatch(line.owner)] == []


def test_every_mark_names_a_line(page: ModuleType) -> None:
    assert set(page.marked_tests()) - {line.id for line in page.contract_lines()} == set()


def test_nothing_is_said_to_be_optional_that_is_tested(page: ModuleType) -> None:
    tests = page.marked_tests()
    assert [line.id for line in page.contract_lines() if line.owner.startswith("nothing") and line.id in tests] == []


def test_the_page_is_up_to_date(page: ModuleType) -> None:
    assert page.PAGE.read_text() == page.contract_page(), "docs/contract.md is out of date: make contract"
