"""What the engine knows about one open request."""

from __future__ import annotations

from dataclasses import dataclass, field

from ninfer_core.api.service import LiveTimings, Timings, Usage
from ninfer_core.engine.draft_counts import DraftCounts
from ninfer_core.engine.messages import Submit
from ninfer_core.engine.session import Ending, OutputSession
from ninfer_core.program.contract import RowSetup


@dataclass(slots=True, eq=False)
class RequestRecord:
    """Mutated by the engine thread only. `row` is None exactly while the request waits.

    `limit` is the effective output limit in tokens; `accepted` is N of the row's last unit, 0 before its first
    candidate. Times are on the engine's monotonic clock.
    """

    submit: Submit
    limit: int
    limit_ending: Ending
    session: OutputSession
    row: int | None = None
    prefilled_tokens: int = 0
    accepted: int = 0
    admitted_at: float = 0.0
    first_commit_at: float | None = None
    last_commit_at: float = 0.0
    drafts: DraftCounts = field(default_factory=DraftCounts)

    @property
    def request_id(self) -> int:
        return self.submit.request_id

    @property
    def prompt_tokens(self) -> int:
        return len(self.submit.token_ids)

    @property
    def setup(self) -> RowSetup:
        return RowSetup(self.prompt_tokens, self.prompt_tokens + self.limit, self.submit.sampling)

    def committed(self, now: float) -> None:
        """Tokens of this row (or, with no output wanted, its prompt) have been committed at `now`."""
        if self.first_commit_at is None:
            self.first_commit_at = now
        self.last_commit_at = now

    def usage(self) -> Usage:
        return Usage(
            prompt_tokens=self.prompt_tokens,
            cached_tokens=0,
            output_tokens=self.session.output_tokens,
            reasoning_tokens=self.session.reasoning_tokens,
            thinking_budget=self.submit.thinking_budget,
            model_thinking_tokens=self.session.model_thinking_tokens,
            thinking_control_tokens=self.session.control_tokens,
        )

    def timings(self) -> Timings:
        """The clocks of contract OBS-4 and OBS-5; without any output the prompt clock ends with the prompt."""
        first = self.admitted_at if self.first_commit_at is None else self.first_commit_at
        return Timings(
            queue_seconds=max(0.0, self.admitted_at - self.submit.received_monotonic),
            prompt_seconds=max(0.0, first - self.admitted_at),
            generation_seconds=max(0.0, self.last_commit_at - first),
        )

    def live_timings(self) -> LiveTimings:
        """As of the latest commit (contract OBS-8)."""
        timings = self.timings()
        return LiveTimings(
            output_tokens=self.session.output_tokens,
            prompt_seconds=timings.prompt_seconds,
            generation_seconds=timings.generation_seconds,
        )
