"""What one request's candidate tokens become: text, and the number N of them that is taken.

The session decides and counts; nothing it returns may be shown before the caller has fixed N for the whole round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ninfer_core.api.errors import GenerationFailed
from ninfer_core.api.frontend import ChannelText, OutputDecoder
from ninfer_core.api.request import Channel
from ninfer_core.api.service import FinishReason, TextDelta
from ninfer_core.engine.stops import StopMatcher


@dataclass(frozen=True, slots=True)
class Ending:
    """Why an answer is over. `stop_string` is set exactly when `reason` is `stop_string`."""

    reason: FinishReason
    stop_string: str | None = None


@dataclass(frozen=True, slots=True)
class SessionStep:
    """The outcome of one unit: how many candidates were taken, the text they made certain, and the end if it came.
    With `control` the thinking budget is spent, and the caller has to close thinking before anything else."""

    accepted: int
    deltas: tuple[TextDelta, ...]
    ending: Ending | None
    control: bool = False


class OutputSession:
    """Takes candidates one at a time until the answer ends.

    `limit` is the effective output limit in tokens, at least 1, and `limit_ending` what reaching it is called.
    Stop strings are matched within one channel and never across the closing of the thinking block (decision 6).
    A stop token is counted but its text withheld (contract GEN-27).

    `thinking_budget` is in tokens, None where thinking is not bounded; what closes thinking must fit under `limit`.
    It counts what the model writes while its thinking is open, the closing token included (docs/engine.md, "Thinking
    budget").
    """

    __slots__ = (
        "_channel",
        "_decoder",
        "_limit",
        "_limit_ending",
        "_matchers",
        "_stop_token_ids",
        "_text",
        "_thinking_budget",
        "control_tokens",
        "model_thinking_tokens",
        "output_tokens",
        "reasoning_tokens",
    )

    def __init__(
        self,
        decoder: OutputDecoder,
        *,
        stop_token_ids: frozenset[int],
        stop: tuple[str, ...],
        stop_channels: tuple[Channel, ...],
        limit: int,
        limit_ending: Ending,
        thinking_budget: int | None = None,
    ) -> None:
        self._decoder = decoder
        self._stop_token_ids = stop_token_ids
        self._matchers: dict[Channel, StopMatcher] = {
            "reasoning": StopMatcher(stop if "reasoning" in stop_channels else ()),
            "content": StopMatcher(stop if "content" in stop_channels else ()),
        }
        self._limit = limit
        self._limit_ending = limit_ending
        self._channel: Channel = decoder.channel
        self._text: list[ChannelText] = []
        self._thinking_budget = thinking_budget
        self.output_tokens = 0
        self.reasoning_tokens = 0
        self.model_thinking_tokens = 0
        self.control_tokens = 0

    def push(self, candidates: Sequence[int]) -> SessionStep:
        """Take candidates up to the one that ends the answer or spends the thinking budget, or all of them."""
        for accepted, token_id in enumerate(candidates, start=1):
            ending = self._take(token_id)
            if ending is not None or self._thinking_is_over:
                return SessionStep(accepted, self._drain(), ending, control=ending is None)
        return SessionStep(len(candidates), self._drain(), None)

    def force(self, token_ids: Sequence[int]) -> SessionStep:
        """Take the tokens that close thinking. Stop strings are about what the model writes: they neither match in
        this text nor begin before it (TMPL-12 knows no partial insertion)."""
        self._emit(self._channel, self._matchers[self._channel].flush())
        for token_id in token_ids:
            self._count()
            for channel, text in self._decoder.push(token_id):
                self._channel = channel
                self._emit(channel, text)
        self.control_tokens += len(token_ids)
        assert self._decoder.channel == "content", "the control tokens have left thinking open"
        assert self.output_tokens < self._limit, "the control tokens leave no room for an answer"
        return SessionStep(1, self._drain(), None)

    @property
    def ends_at_next(self) -> bool:
        """Whether the next candidate is certainly the last one taken."""
        return self.output_tokens + 1 >= self._limit

    def may_need_control_within(self, candidates: int) -> bool:
        """Whether one of the next so many may spend the thinking budget."""
        budget = self._thinking_budget
        if budget is None or self._decoder.channel != "reasoning":
            return False
        return self.model_thinking_tokens + candidates >= budget

    @property
    def _thinking_is_over(self) -> bool:
        """The budget is spent and the model has not closed its thinking itself."""
        return self.model_thinking_tokens == self._thinking_budget and self._decoder.channel == "reasoning"

    def _count(self) -> None:
        self.output_tokens += 1
        self.reasoning_tokens += self._decoder.channel == "reasoning"

    def _take(self, token_id: int) -> Ending | None:
        self._count()
        self.model_thinking_tokens += self._decoder.channel == "reasoning"
        if token_id in self._stop_token_ids:
            return self._finish(Ending("stop_token"))
        if (stopped := self._feed(self._decoder.push(token_id))) is not None:
            return stopped
        if self.output_tokens == self._limit:
            return self._finish(self._limit_ending)
        return None

    def _finish(self, ending: Ending) -> Ending:
        """Give out what decoder and matcher held. A stop string that this text completes takes precedence."""
        if (stopped := self._feed(self._decoder.finish())) is not None:
            return stopped
        self._emit(self._channel, self._matchers[self._channel].flush())
        return ending

    def _feed(self, pieces: Sequence[ChannelText]) -> Ending | None:
        for channel, text in pieces:
            if channel != self._channel:
                self._emit(self._channel, self._matchers[self._channel].flush())
                self._channel = channel
            matcher = self._matchers[channel]
            self._emit(channel, matcher.push(text))
            if matcher.stopped_by is not None:
                return Ending("stop_string", matcher.stopped_by)
        return None

    def _emit(self, channel: Channel, text: str) -> None:
        if text:
            self._text.append(ChannelText(channel, text))

    def _drain(self) -> tuple[TextDelta, ...]:
        """The new text, adjacent pieces of one channel joined."""
        deltas: list[TextDelta] = []
        for channel, text in self._text:
            if deltas and deltas[-1].channel == channel:
                deltas[-1] = TextDelta(channel=channel, text=deltas[-1].text + text)
            else:
                deltas.append(TextDelta(channel=channel, text=text))
        self._text.clear()
        return tuple(deltas)


def session_failure(undone: str, error: Exception) -> GenerationFailed:
    """What a request is told whose session has failed. The exception's own text stays out: it may quote what the model
    wrote."""
    return GenerationFailed(f"the answer could not be {undone} ({type(error).__name__}); the server's log says where")
