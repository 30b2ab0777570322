"""Generated ids -> text of two channels, one id at a time, at a cost that does not grow with the answer."""

from __future__ import annotations

import codecs
from collections.abc import Callable

from ninfer_core.api import Channel, ChannelText
from ninfer_models.qwen_hybrid.frontend.channels import ChannelSplitter

_utf8_decoder = codecs.getincrementaldecoder("utf-8")


class QwenOutputDecoder:
    """The family's OutputDecoder.

    UTF-8 is exact under every cut: whole characters are given at once, a byte that can never become one is
    U+FFFD at once, an incomplete sequence waits for its next byte. The result equals decoding all bytes in one
    piece with errors replaced.
    """

    channel: Channel

    def __init__(self, token_bytes: Callable[[int], bytes], initial_channel: Channel) -> None:
        self._token_bytes = token_bytes
        self._characters = _utf8_decoder("replace")
        self._splitter = ChannelSplitter(initial_channel)
        self.channel = initial_channel

    def push(self, token_id: int) -> tuple[ChannelText, ...]:
        texts = self._splitter.push(self._characters.decode(self._token_bytes(token_id)))
        self.channel = self._splitter.channel
        return texts

    def finish(self) -> tuple[ChannelText, ...]:
        texts = self._splitter.push(self._characters.decode(b"", final=True)) + self._splitter.finish()
        self.channel = self._splitter.channel
        return texts
