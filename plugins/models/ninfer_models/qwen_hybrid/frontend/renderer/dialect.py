"""What differs between the templates of this family, as data; everything else is layout.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ninfer_models.qwen_hybrid.frontend.renderer.segments import Segment


@dataclass(frozen=True, slots=True)
class Dialect:
    """Read off one artifact's template; nothing in it is spelled in our code.

    `preambles` is what begins the system turn by (enable_thinking, reasoning_effort) as the template is given them:
    the effort sentence of 3.8, nothing in 3.6. `tools_head` and `tools_foot` stand around the definitions.
    `prologues` opens the turn that the model writes, by enable_thinking. `keeps_empty_system_turn`: a system message
    without text still makes a turn (3.6). `reasoning_in_content`: a `</think>` inside the content of an assistant
    message that says nothing about reasoning divides it (3.6). `preserves` is whether reasoning of closed turns
    stays when the template is not told. `scalars` is how numbers, true, false and null are written as arguments.
    `media`: images and videos have placeholders. `no_question` is the template's refusal of a conversation in which
    no user asks anything.
    """

    preambles: Mapping[tuple[bool | None, str | None], tuple[Segment, ...]]
    tools_head: tuple[Segment, ...]
    tools_foot: tuple[Segment, ...]
    prologues: Mapping[bool | None, tuple[Segment, ...]]
    keeps_empty_system_turn: bool
    reasoning_in_content: bool
    preserves: bool
    scalars: Literal["json", "python"]
    media: bool
    no_question: str
