"""What the code says is written somewhere is written there: pages and their headings."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = re.compile(r"(?<![\w./-])(?:docs/)?([\w-]+\.md)\b(?:,\s+\"([^\"\n]*(?:\n\s*[^\"\n]*)?)\")?")
"""A page, and the heading that a citation names behind it, which may go on in the next line."""
NUMBERED = re.compile(r"\.md\b[^.\n]{0,12}\bsections?\s+\d")
"""A section by its number: headings of pages have none."""
MADE = frozenset({"README.md"})
"""Pages of other places, or ones that a test makes."""


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


PAGES = {path.name: path for path in sorted((ROOT / "docs").rglob("*.md")) + sorted(ROOT.glob("*.md"))}
SOURCES = [path for path in tracked("*.py", "*.toml", "Makefile") if path != Path(__file__)]


def headings(page: Path) -> set[str]:
    return set(re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE))


def citations(path: Path) -> list[tuple[str, str | None]]:
    return [(page, heading and " ".join(heading.split())) for page, heading in PAGE.findall(path.read_text())]


def test_every_page_that_is_cited_is_there_with_the_heading_that_is_named() -> None:
    cited = [(path, page, heading) for path in SOURCES for page, heading in citations(path) if page not in MADE]
    assert sum(1 for _, _, heading in cited if heading) > 20, "citations are no longer recognised"
    missing = [f"{path.relative_to(ROOT)}: {page}" for path, page, _ in cited if page not in PAGES]
    assert missing == []
    wrong = [
        f'{path.relative_to(ROOT)}: {page}, "{heading}"'
        for path, page, heading in cited
        if heading and heading not in headings(PAGES[page])
    ]
    assert wrong == []


def test_no_section_is_cited_by_a_number() -> None:
    assert [path.relative_to(ROOT).as_posix() for path in SOURCES if NUMBERED.search(path.read_text())] == []


@pytest.mark.parametrize("path", sorted(PAGES.values()), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_between_pages_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)", path.read_text())
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_a_citation_is_read_as_it_is_written() -> None:
    text = 'see (docs/engine.md, "Choice of\n    a token"), model.md, and /elsewhere/other.md or x-engine.md'
    found = [(page, heading and " ".join(heading.split())) for page, heading in PAGE.findall(text)]
    assert found == [("engine.md", "Choice of a token"), ("model.md", ""), ("x-engine.md", "")]
    assert NUMBERED.search("engine.md section 8") and not NUMBERED.search('engine.md, "Pages"')
