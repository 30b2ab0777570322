"""The engine process reads output exactly as the front's frontend would, and looks at no template for it."""

from __future__ import annotations

import msgspec
import pytest
from ninfer_models.qwen_hybrid.frontend import build_frontend, template
from ninfer_models.qwen_hybrid.frontend.output_vocabulary import build_vocabulary

from ninfer_core.api import ArtifactInvalid
from ninfer_core.testing.tiny import tiny_header


@pytest.mark.contract("TMPL-12", "GEN-27")
def test_a_vocabulary_says_what_the_frontend_says() -> None:
    header = tiny_header()
    frontend, vocabulary = build_frontend(header), build_vocabulary(header)
    assert vocabulary.stop_token_ids == frontend.stop_token_ids
    assert vocabulary.thinking_control_ids == frontend.thinking_control_ids != ()
    assert vocabulary.token_domain == frontend.token_domain
    ids = range(frontend.token_domain)
    assert list(map(vocabulary.token_bytes, ids)) == list(map(frontend.token_bytes, ids))
    assert type(vocabulary.output_format) is type(frontend.output_format)


def test_it_needs_no_template(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*arguments: object, **named: object) -> None:
        raise AssertionError("a template is compiled")

    monkeypatch.setattr(template.ChatTemplate, "__init__", never)
    header = tiny_header()
    resources = {name: data for name, data in header.resources.items() if name != "chat_template.jinja"}
    assert build_vocabulary(msgspec.structs.replace(header, resources=resources)).stop_token_ids
    with pytest.raises(AssertionError):
        build_frontend(header)


def test_it_says_what_is_missing() -> None:
    with pytest.raises(ArtifactInvalid, match=r"no tokenizer\.json"):
        build_vocabulary(msgspec.structs.replace(tiny_header(), resources={}))
