"""The structure that the templates of this family share (docs/model.md, "Templates"): turns, blocks, tags."""

from __future__ import annotations

from dataclasses import dataclass, fields

from ninfer_models.qwen_hybrid.frontend.control_tokens import ControlTokens
from ninfer_models.qwen_hybrid.frontend.renderer.segments import Segment, template_segments

SYSTEM_OPEN = "<|im_start|>system\n"
USER_OPEN = "<|im_start|>user\n"
ASSISTANT_OPEN = "<|im_start|>assistant\n"
TURN_CLOSE = "<|im_end|>\n"
PARAGRAPH = "\n\n"
TOOL_LINE = "\n"
"""Before each tool definition, which is one line of JSON."""

RESPONSE_OPEN = "<tool_response>"
RESPONSE_CLOSE = "</tool_response>"

_WRITTEN = {
    "system_open": SYSTEM_OPEN,
    "user_open": USER_OPEN,
    "assistant_open": ASSISTANT_OPEN,
    "turn_close": TURN_CLOSE,
    "paragraph": PARAGRAPH,
    "tool_line": TOOL_LINE,
    "think_open": "<think>\n",
    "think_close": "\n</think>\n\n",
    "results_open": "<|im_start|>user",
    "result_open": f"\n{RESPONSE_OPEN}\n",
    "result_close": f"\n{RESPONSE_CLOSE}",
    "call_gap": "\n",
    "call_open": "<tool_call>\n<function=",
    "call_close": "</function>\n</tool_call>",
    "argument_open": "<parameter=",
    "argument_close": "\n</parameter>\n",
    "name_end": ">\n",
}


@dataclass(frozen=True, slots=True)
class Layout:
    """Every fixed string as segments, cut at the control tokens of one vocabulary.

    Results of tools share a user turn that begins without a line feed: each result brings its own.
    """

    system_open: tuple[Segment, ...]
    user_open: tuple[Segment, ...]
    assistant_open: tuple[Segment, ...]
    turn_close: tuple[Segment, ...]
    paragraph: tuple[Segment, ...]
    tool_line: tuple[Segment, ...]
    think_open: tuple[Segment, ...]
    think_close: tuple[Segment, ...]
    results_open: tuple[Segment, ...]
    result_open: tuple[Segment, ...]
    result_close: tuple[Segment, ...]
    call_gap: tuple[Segment, ...]
    call_open: tuple[Segment, ...]
    call_close: tuple[Segment, ...]
    argument_open: tuple[Segment, ...]
    argument_close: tuple[Segment, ...]
    name_end: tuple[Segment, ...]

    @classmethod
    def of(cls, control: ControlTokens) -> Layout:
        return cls(**{field.name: template_segments(_WRITTEN[field.name], control) for field in fields(cls)})
