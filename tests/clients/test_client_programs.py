"""The programs of the pages about LangChain and LiteLLM run as they stand, but for address and model.

`make test-clients` installs LangChain. LiteLLM needs older packages than `constraints.txt` has, and so an environment
of its own. Where one is not installed there is nothing to test.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ninfer_protocols import anthropic, openai_chat

from ninfer_core.testing.scripted_server import MODEL_ID, scripted_server

PAGES = Path(__file__).parents[2] / "docs" / "clients"
ANSWERS: list[dict[str, Any]] = [
    {"match": "France", "reasoning": "Easy.", "content": "Paris."},
    {"match": "Sort", "reasoning": "Small.", "content": "7, 19, 42"},
]
PROGRAMS = [
    ("langchain", "langchain_anthropic", "Paris.\n7, 19, 42\n"),
    ("litellm", "litellm", "Paris.\nParis. Easy.\n"),
]

pytestmark = pytest.mark.long


@pytest.mark.parametrize(("page", "package", "printed"), PROGRAMS)
def test_programs(page: str, package: str, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip(package, reason=f"{package} is not installed")
    (program,) = re.findall(r"```python\n(.*?)```", (PAGES / f"{page}.md").read_text(), re.DOTALL)
    builds = (openai_chat.ninfer_protocol_build, anthropic.ninfer_protocol_build)
    with scripted_server(ANSWERS, lambda context: [build(context=context) for build in builds]) as server:
        here = program.replace("http://127.0.0.1:8080", server.base_url).replace("ninfer-tiny", MODEL_ID)
        assert here.count(server.base_url) == 2
        exec(compile(here, f"{page}.md", "exec"), {"__name__": "page"})
    assert capsys.readouterr().out == printed
