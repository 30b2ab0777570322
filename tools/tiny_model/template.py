"""Renders dialogues with the model's own chat template, in the environment every server uses for it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from jinja2 import Template
from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

ASSETS = Path(__file__).parent / "assets"
Message = Mapping[str, object]


def load_template(path: Path = ASSETS / "chat_template.jinja") -> Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise
    return environment.from_string(path.read_text(encoding="utf-8"))


def render(template: Template, messages: Sequence[Message], options: Mapping[str, object], *, prompt: bool) -> str:
    """`prompt` adds the opening of the assistant's turn."""
    return template.render(messages=messages, add_generation_prompt=prompt, **options)


def _to_json(value: object) -> str:
    # Jinja's own filter escapes <, > and &, which would change what the model reads.
    return json.dumps(value, ensure_ascii=False)


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)
