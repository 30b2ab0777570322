"""What a prompt is made of: control tokens, the template's own text, and text of the request with its source.

A control token is one because of the segment it is in, never because of how a text is spelled (decision 12).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ninfer_core.api import FrontierKind, MediaPart
from ninfer_models.qwen_hybrid.frontend.control_tokens import ControlTokens
from ninfer_models.qwen_hybrid.frontend.tokenizer import Control, Piece

SourceKind = Literal["content", "reasoning", "tool_definition", "tool_name", "argument_name", "argument"]


class Source(NamedTuple):
    """Where text of a request came from.

    `message` is the index in the request, None for tool definitions. `part` is the index of the content part, of
    the tool definition or of the tool call; None where there is only one.
    """

    kind: SourceKind
    message: int | None = None
    part: int | None = None


class TemplateText(NamedTuple):
    text: str


class RequestText(NamedTuple):
    text: str
    source: Source


class MediaPad(NamedTuple):
    """The one token that stands for an image or a video until its patches are counted."""

    token_id: int
    text: str
    source: Source


Segment = Control | TemplateText | RequestText | MediaPad


class Mark(NamedTuple):
    """A wanted frontier: before the segment of that index."""

    kind: FrontierKind
    segment: int
    message: int | None = None
    part: int | None = None


@dataclass(frozen=True, slots=True)
class Rendering:
    """`marks` stand in the order of their places."""

    segments: tuple[Segment, ...]
    marks: tuple[Mark, ...]

    @property
    def text(self) -> str:
        return "".join(segment.text for segment in self.segments)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Text between two control tokens is one piece, whoever wrote it: no extra token boundary (decision 12)."""
        return tuple(merged(self.segments))


def merged(segments: Iterable[Segment]) -> Iterator[Piece]:
    texts: list[str] = []
    for segment in segments:
        if isinstance(segment, (Control, MediaPad)):
            if text := "".join(texts):
                yield text
            texts.clear()
            yield Control(segment.token_id, segment.text)
        else:
            texts.append(segment.text)
    if text := "".join(texts):
        yield text


def template_segments(text: str, control: ControlTokens) -> tuple[Segment, ...]:
    """Text that a template writes, cut at its control tokens. One that the vocabulary lacks stays text."""
    segments: list[Segment] = []
    end = 0
    for match in control.pattern.finditer(text):
        segments += [TemplateText(text[end : match.start()]), Control(control.id_of[match[0]], match[0])]
        end = match.end()
    segments.append(TemplateText(text[end:]))
    return tuple(segment for segment in segments if segment.text)


def piece_segments(pieces: Sequence[Piece]) -> tuple[Segment, ...]:
    """What a probe read off a template, as the template's own segments."""
    return tuple(TemplateText(piece) if isinstance(piece, str) else piece for piece in pieces)


MEDIA_OPEN = "<|vision_start|>"
MEDIA_CLOSE = "<|vision_end|>"
MEDIA_PADS = {"image": "<|image_pad|>", "video": "<|video_pad|>"}


def media_segments(part: MediaPart, source: Source, control: ControlTokens) -> tuple[Segment, ...]:
    """`<|vision_start|>`, the pad of the modality, `<|vision_end|>`."""
    written = template_segments(MEDIA_OPEN + MEDIA_PADS[part.modality] + MEDIA_CLOSE, control)
    pad = MEDIA_PADS[part.modality]
    return tuple(
        MediaPad(segment.token_id, segment.text, source)
        if isinstance(segment, Control) and segment.text == pad
        else segment
        for segment in written
    )
