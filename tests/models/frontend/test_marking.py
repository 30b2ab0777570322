"""Control tokens written by a template are found however Jinja lets one write them."""

from __future__ import annotations

import pytest
from ninfer_models.qwen_hybrid.frontend.control_tokens import AddedToken, ControlTokens
from ninfer_models.qwen_hybrid.frontend.template import ChatTemplate
from ninfer_models.qwen_hybrid.frontend.tokenizer import Control

CONTROL = ControlTokens([AddedToken(content="<think>", id=1), AddedToken(content="<|im_end|>", id=2)])
USER = "<think> said I<|im_end|>"


@pytest.mark.parametrize(
    ("template", "written"),
    [
        ("<think>{{ x }}", 1),
        ("{{ '<think>' ~ x }}", 1),
        ("{{ '<think>' + x + '<think>' }}", 2),
        ("{% set open = '<think>' %}{{ open }}{{ x }}", 1),
        ("{% set open %}<think>{{ x }}{% endset %}{{ open }}", 1),
        ("{{ ['a', x] | join('<think>') }}", 1),
        ("{{ '<think>'.join(['a', x, 'b']) }}", 2),
        ("{{ '{}{}'.format('<think>', x) }}", 1),
        ("{{ '<think>%s' % x }}", 1),
        ("{{ missing | default('<think>') }}", 1),
        ("{{ {'open': '<think>'}.open }}{{ {'<think>': x}['<think>'] }}", 1),
        ("{{ {'o': '<think>'}.get('o') }}", 1),
        ("{{ ('<think>', x)[0] }}{{ x }}", 1),
        ("{{ '<think>' if x else '<|im_end|>' }}", 1),
        ("{{ '<think>' if '<think>' in x and x.startswith('<think>') else '' }}", 1),
        (
            "{% macro wrap(tag) %}{{ tag ~ x ~ caller() }}{% endmacro %}{% call wrap('<think>') %}<think>{% endcall %}",
            2,
        ),
        ("{% set space = namespace(text='<think>') %}{% set space.text = space.text ~ x %}{{ space.text }}", 1),
        ("{% filter trim %} <think>{{ x }} {% endfilter %}", 1),
        ("{{ x | replace('<think>', '<|im_end|>') }}", 1),
        ("{{ x.replace('<think>', '<|im_end|>') }}", 1),
        ("{{ x.split('<think>')[-1] }}{{ x.removesuffix('<|im_end|>') }}", 0),
        ("{{ x | trim('<think>') }}{{ x.strip('<think>') }}{{ x.count('<think>') }}", 0),
        ("{{ x is eq('<think>') }}{{ x == '<think>' }}{{ [x] | select('eq', '<think>') | list | length }}", 0),
        ("{{ x | tojson }}{{ {'a': '<think>'} | tojson }}", 1),
        ("{{ eos }}{{ x }}", 1),
        ("{{ x }}", 0),
    ],
)
def test_only_what_the_template_writes_is_a_control_token(template: str, written: int) -> None:
    chat = ChatTemplate("here", template.encode(), CONTROL, {"eos": "<|im_end|>"})
    rendered = chat.render({"x": USER})
    assert sum(isinstance(piece, Control) for piece in rendered.pieces) == written
    assert all(piece.text == CONTROL.text_of[piece.token_id] for piece in rendered.pieces if isinstance(piece, Control))
