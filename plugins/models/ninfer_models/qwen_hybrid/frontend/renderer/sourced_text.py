"""Text of a request that remembers where each stretch came from while it is stripped and cut as a template would."""

from __future__ import annotations

from collections.abc import Sequence

from ninfer_core.api import MediaPart, Part
from ninfer_models.qwen_hybrid.frontend.control_tokens import ControlTokens
from ninfer_models.qwen_hybrid.frontend.renderer.segments import RequestText, Segment, Source, media_segments


class SourcedText:
    """Immutable. `text` is what a template sees; `segments` joined are `text`."""

    __slots__ = ("segments", "text")

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.segments = tuple(segment for segment in segments if segment.text)
        self.text = "".join(segment.text for segment in segments)

    @classmethod
    def of(cls, text: str, source: Source) -> SourcedText:
        return cls((RequestText(text, source),))

    @classmethod
    def of_parts(cls, parts: Sequence[Part], message: int, control: ControlTokens) -> SourcedText:
        """Parts joined with no separator (contract CHAT-4), media as their placeholders."""
        segments: list[Segment] = []
        for index, part in enumerate(parts):
            source = Source("content", message, index)
            if isinstance(part, MediaPart):
                segments += media_segments(part, source, control)
            else:
                segments.append(RequestText(part.text, source))
        return cls(segments)

    def strip(self) -> SourcedText:
        return self.lstrip().rstrip()

    def lstrip(self, characters: str | None = None) -> SourcedText:
        return self[len(self.text) - len(self.text.lstrip(characters)) :]

    def rstrip(self, characters: str | None = None) -> SourcedText:
        return self[: len(self.text.rstrip(characters))]

    def __getitem__(self, span: slice) -> SourcedText:
        """Characters of `span`. White space and tags of a request are cut away, so no token is ever cut through."""
        start, end, step = span.indices(len(self.text))
        assert step == 1
        if (start, end) == (0, len(self.text)):
            return self
        kept: list[Segment] = []
        offset = 0
        for segment in self.segments:
            low, high = max(start - offset, 0), min(end - offset, len(segment.text))
            offset += len(segment.text)
            if low >= high:
                continue
            if isinstance(segment, RequestText):
                kept.append(RequestText(segment.text[low:high], segment.source))
            else:
                assert (low, high) == (0, len(segment.text)), "a control token is kept whole or not at all"
                kept.append(segment)
        return SourcedText(kept)
