"""Cut generated text at the end of thinking (contract RESP-56, decision 7).

Framing, which belongs to neither channel:
- the line feeds directly before the first `</think>` and directly after it;
- a `<think>` that the model prints again as the very first thing of its thinking, with the line feeds after it
  (the template has opened the block already; kept, it would be shown twice when the turn is replayed).
Only the first `</think>` closes. Later tags, and any tag when the answer began as content, are text.
"""

from __future__ import annotations

from collections.abc import Callable

from ninfer_core.api import Channel, ChannelText
from ninfer_models.qwen_hybrid.frontend.control_tokens import THINK_CLOSE, THINK_OPEN


class ChannelSplitter:
    """Text in any cuts -> text of two channels. What is held back could still turn out to be framing or a tag.

    Work per call is linear in the new text: held line feeds are kept as a count, held tags are shorter than a tag.
    """

    def __init__(self, initial_channel: Channel) -> None:
        self.channel: Channel = initial_channel
        self._held = ""
        self._held_line_feeds = 0
        self._take: Callable[[str], tuple[ChannelText, ...]] = (
            self._opening if initial_channel == "reasoning" else self._content
        )

    def push(self, text: str) -> tuple[ChannelText, ...]:
        return self._take(text) if text else ()

    def finish(self) -> tuple[ChannelText, ...]:
        """Thinking that was never closed keeps all it held; after a close only framing was held."""
        held = "\n" * self._held_line_feeds + self._held
        self._held, self._held_line_feeds = "", 0
        return (ChannelText(self.channel, held),) if held else ()

    def _opening(self, text: str) -> tuple[ChannelText, ...]:
        text = self._held + text
        if THINK_OPEN.startswith(text) and text != THINK_OPEN:
            self._held = text
            return ()
        self._held = ""
        if text.startswith(THINK_OPEN):
            self._take = self._opened_again
            return self._opened_again(text[len(THINK_OPEN) :])
        self._take = self._reasoning
        return self._reasoning(text)

    def _opened_again(self, text: str) -> tuple[ChannelText, ...]:
        text = text.lstrip("\n")
        if not text:
            return ()
        self._take = self._reasoning
        return self._reasoning(text)

    def _reasoning(self, text: str) -> tuple[ChannelText, ...]:
        text = self._held + text
        before, closed, after = text.partition(THINK_CLOSE)
        if closed:
            self._held = ""
            reasoning = self._with_held_line_feeds(before.rstrip("\n"))
            self._held_line_feeds = 0
            self.channel = "content"
            self._take = self._after_close
            return reasoning + self._after_close(after)
        tag_start = text.rfind("<")
        cut = tag_start if tag_start >= 0 and THINK_CLOSE.startswith(text[tag_start:]) else len(text)
        certain = text[:cut].rstrip("\n")
        given = self._with_held_line_feeds(certain)
        self._held_line_feeds += cut - len(certain)
        self._held = text[cut:]
        return given

    def _with_held_line_feeds(self, text: str) -> tuple[ChannelText, ...]:
        if not text:
            return ()
        text = "\n" * self._held_line_feeds + text
        self._held_line_feeds = 0
        return (ChannelText("reasoning", text),)

    def _after_close(self, text: str) -> tuple[ChannelText, ...]:
        text = text.lstrip("\n")
        if not text:
            return ()
        self._take = self._content
        return self._content(text)

    def _content(self, text: str) -> tuple[ChannelText, ...]:
        return (ChannelText("content", text),)
