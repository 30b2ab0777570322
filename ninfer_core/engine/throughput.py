"""Counts what the engine does, for one record of each interval (contract OLOG-7, OLOG-8)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ninfer_core.engine.draft_counts import DraftCounts
from ninfer_core.engine.messages import Throughput


@dataclass(frozen=True, slots=True)
class Standing:
    """Open requests by what they are doing."""

    prefilling: int
    decode_ready: int
    waiting: int


@dataclass(slots=True)
class _Counts:
    prefill_tokens: int = 0
    decode_tokens: int = 0
    decode_rounds: int = 0
    decode_rows: int = 0
    drafts: DraftCounts = field(default_factory=DraftCounts)
    host_seconds: float = 0.0

    @property
    def any_work(self) -> bool:
        return bool(self.prefill_tokens or self.decode_rounds)


class ThroughputMeter:
    """Belongs to the engine's thread. An interval begins with the first work after an idle time, or with the end of the
    interval before; one without work is not published. `interval_seconds` 0 publishes none.
    """

    def __init__(
        self, interval_seconds: float, clock: Callable[[], float], publish: Callable[[Throughput], None]
    ) -> None:
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._publish = publish
        self._counts = _Counts()
        self._begin = clock()
        self._exposed_since: float | None = None

    def device_is_done(self) -> None:
        """The device has nothing left to do: from here on it waits for the engine."""
        self._exposed_since = self._clock()

    def device_is_busy(self) -> None:
        """It has been given the next unit."""
        if self._exposed_since is not None:
            self._counts.host_seconds += max(0.0, self._clock() - self._exposed_since)
            self._exposed_since = None

    def device_was_idle(self, seconds: float) -> None:
        """It had done what it was given, that long before it was given more."""
        self._counts.host_seconds += seconds

    def nothing_to_do(self) -> None:
        """There is no unit to give: that the device waits is nobody's fault."""
        self._exposed_since = None

    def prefilled(self, tokens: int) -> None:
        self._counts.prefill_tokens += tokens

    def decoded(self, *, rows: int, tokens: int, drafts: DraftCounts) -> None:
        self._counts.decode_rounds += 1
        self._counts.decode_rows += rows
        self._counts.decode_tokens += tokens
        self._counts.drafts.include(drafts)

    def begin_boundary(self) -> None:
        """Call after the wait for messages, if there was one."""
        now = self._clock()
        if not self._counts.any_work and now - self._begin >= self._interval_seconds:
            self._begin = now

    def end_boundary(self, standing: Standing) -> None:
        """Publish the interval if it is over."""
        now = self._clock()
        counts = self._counts
        if self._interval_seconds == 0 or not counts.any_work or now - self._begin < self._interval_seconds:
            return
        self._publish(
            Throughput(
                seconds=now - self._begin,
                prefill_tokens=counts.prefill_tokens,
                decode_tokens=counts.decode_tokens,
                decode_rounds=counts.decode_rounds,
                decode_rows=counts.decode_rows,
                speculation=counts.drafts.total(),
                host_seconds=counts.host_seconds,
                prefilling=standing.prefilling,
                decode_ready=standing.decode_ready,
                waiting=standing.waiting,
            )
        )
        self._counts = _Counts()
        self._begin = now

    @property
    def seconds_left(self) -> float | None:
        """How long an idle engine may sleep before the interval that it worked in has to be published."""
        if self._interval_seconds == 0 or not self._counts.any_work:
            return None
        return max(0.0, self._begin + self._interval_seconds - self._clock())
