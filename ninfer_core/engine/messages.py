"""What the front and the engine say to each other. The same values travel between threads and processes."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import msgspec

from ninfer_core.api.errors import ErrorCategory, NinferError, RequestError, RequestQueueTimeout
from ninfer_core.api.request import Channel
from ninfer_core.api.service import GenerationEvent, Speculation
from ninfer_core.program.contract import Sampling


class Submit(msgspec.Struct, frozen=True, kw_only=True, tag="submit"):
    """One prepared request. `deadline_monotonic` bounds the wait for admission on the system-wide monotonic clock;
    `received_monotonic` is when the front took it in. `prompt` is token ids as int32, each of which the front has held
    against the vocabulary: the engine's thread walks no million numbers. `thinking_budget` is in tokens, 1 or more,
    and of use only where `initial_channel` is `reasoning`."""

    request_id: int
    prompt: bytes
    initial_channel: Channel
    sampling: Sampling
    max_output_tokens: int
    stop: tuple[str, ...]
    stop_channels: tuple[Channel, ...]
    received_monotonic: float
    deadline_monotonic: float
    thinking_budget: int | None = None

    @property
    def token_ids(self) -> memoryview[int]:
        """A view of `prompt`, to be sliced."""
        return memoryview(self.prompt).cast("i")


def pack_token_ids(token_ids: Sequence[int]) -> bytes:
    """As `Submit.prompt`. Raises OverflowError for an id beyond int32."""
    return array("i", token_ids).tobytes()


class Cancel(msgspec.Struct, frozen=True, kw_only=True, tag="cancel"):
    """The front has no more use for this request. Unknown or finished ids are ignored."""

    request_id: int


class Shutdown(msgspec.Struct, frozen=True, kw_only=True, tag="shutdown"):
    """End the engine. With `drain`, requests already submitted are finished first."""

    drain: bool


FrontMessage = Submit | Cancel | Shutdown


class PhaseDone(msgspec.Struct, frozen=True, kw_only=True, tag="phase"):
    """One phase of the engine's start is over."""

    name: str
    seconds: float


class Ready(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    """The engine accepts work. `plan_digest` is the digest of the plan as the engine itself resolved it."""

    plan_digest: str


class Event(msgspec.Struct, frozen=True, kw_only=True, tag="event"):
    request_id: int
    event: GenerationEvent


class Throughput(msgspec.Struct, frozen=True, kw_only=True, tag="throughput"):
    """What the engine did in one interval that had work in it. Counts are of the interval, `prefilling`, `decode_ready`
    and `waiting` requests as of its end.

    `decode_tokens` were committed by decode rounds, `decode_rows` is the sum of their batches (contract LOG-23, 24);
    `speculation` is about all of these rows, None where none had a drafter.
    `host_seconds` are those that the device stood still in between two units because the engine had not launched the
    next one yet: what host work costs that is not hidden behind the device's.
    """

    seconds: float
    prefill_tokens: int
    decode_tokens: int
    decode_rounds: int
    decode_rows: int
    speculation: Speculation | None
    host_seconds: float
    prefilling: int
    decode_ready: int
    waiting: int


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """The request has ended with this error; no other message about it follows.

    `code`, `category` and `param` are a RequestError's; `waited_ms` is set for `request_queue_timeout`.
    """

    request_id: int
    code: str
    category: ErrorCategory
    message: str
    param: str | None = None
    waited_ms: int = 0


class Fatal(msgspec.Struct, frozen=True, kw_only=True, tag="fatal"):
    """The engine is ending: its start failed, or an invariant broke. Every open request has ended with it."""

    code: str
    message: str


def fatal(error: Exception, code: str) -> Fatal:
    """The message that says `error`, with that code where it has none of its own."""
    if isinstance(error, NinferError):
        return Fatal(code=error.code, message=error.message)
    text = f"{type(error).__name__}: {error}"
    return Fatal(code=code, message=text.encode(errors="backslashreplace").decode())


def failed(request_id: int, error: RequestError) -> Failed:
    """The message that says `error`."""
    waited_ms = error.waited_ms if isinstance(error, RequestQueueTimeout) else 0
    return Failed(
        request_id=request_id,
        code=error.code,
        category=error.category,
        message=error.message,
        param=error.param,
        waited_ms=waited_ms,
    )


EngineMessage = PhaseDone | Ready | Event | Throughput | Failed | Fatal
