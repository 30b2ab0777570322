"""The throughput record of the operational log (contract OLOG-7)."""

from __future__ import annotations

from collections.abc import Mapping

from ninfer_core.engine.messages import Throughput


def throughput_fields(interval: Throughput) -> dict[str, object]:
    """Rates, then who is running, then the host's share. What is zero is left out, the requests that run excepted."""
    rates = {
        "prefill_tokens_per_second": interval.prefill_tokens / interval.seconds,
        "decode_tokens_per_second": interval.decode_tokens / interval.seconds,
        "prefill_tokens": interval.prefill_tokens,
        "decode_tokens": interval.decode_tokens,
        "average_batch": interval.decode_rows / interval.decode_rounds if interval.decode_rounds else 0.0,
        "drafted_tokens": interval.drafted_tokens,
        "accepted_tokens": interval.accepted_tokens,
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
    return {"seconds": interval.seconds, **_nonzero(rates), **running, **_nonzero(standing), **_nonzero(host)}


def _nonzero(fields: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in fields.items() if value}
