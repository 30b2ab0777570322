"""The throughput record of the operational log (contract OLOG-7)."""

from __future__ import annotations

from collections.abc import Mapping

from ninfer_core.api.service import Speculation
from ninfer_core.engine.messages import Throughput


def throughput_fields(interval: Throughput) -> dict[str, object]:
    """Rates, then who is running, then the host's share. What is zero is left out, the requests that run excepted."""
    rates = {
        "prefill_tokens_per_second": interval.prefill_tokens / interval.seconds,
        "decode_tokens_per_second": interval.decode_tokens / interval.seconds,
        "prefill_tokens": interval.prefill_tokens,
        "decode_tokens": interval.decode_tokens,
        "average_batch": interval.decode_rows / interval.decode_rounds if interval.decode_rounds else 0.0,
    }
    running = {"running": interval.prefilling + interval.decode_ready}
    standing = {
        "prefilling": interval.prefilling,
        "decode_ready": interval.decode_ready,
        "waiting": interval.waiting,
    }
    host = {
        "host_seconds": interval.host_seconds,
        "host_percent": 100 * interval.host_seconds / interval.seconds,
    }
    drafts = _draft_fields(interval.speculation)
    return {"seconds": interval.seconds, **_nonzero(rates), **drafts, **running, **_nonzero(standing), **_nonzero(host)}


def _draft_fields(drafts: Speculation | None) -> dict[str, object]:
    """How many tokens a round gave a row, and how often each of its drafts was taken: what a longer draft would be
    worth."""
    if drafts is None:
        return {}
    told = {
        "drafted_tokens": drafts.drafted_tokens,
        "accepted_tokens": drafts.accepted_tokens,
        "tokens_per_round": 1 + drafts.accepted_tokens / drafts.rounds,
        "fallback_steps": drafts.fallback_steps,
    }
    places = "/".join(map(str, drafts.accepted_per_position))
    return {**_nonzero(told), **({"accepted_per_position": places} if drafts.accepted_tokens else {})}


def _nonzero(fields: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in fields.items() if value}
