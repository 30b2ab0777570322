"""Which rows go on behind a round that nobody has seen yet."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ninfer_core.engine.records import RequestRecord
from ninfer_core.engine.scheduler import DecodeRound


def round_ahead(ready: Sequence[RequestRecord], unseen: Collection[int], most_candidates: int) -> DecodeRound | None:
    """The round of those `ready` that what is in flight does not have to be seen for. `unseen` are the requests of
    rounds in flight, which offer each of them up to `most_candidates`.

    A row of such a round goes on with all that it offers: who takes less has ended, or closes its thinking. So one
    whose thinking may be over within it waits to be seen, while the others go on, unless no more of them are left than
    wait: a round of few rows takes nearly as long as one of all, and those that wait miss it.
    """
    going, waiting = [], 0
    for record in ready:
        if record.request_id not in unseen:
            going.append(record)
        elif record.session.ends_at_next:
            continue
        elif record.session.may_need_control_within(most_candidates):
            waiting += 1
        else:
            going.append(record)
    return DecodeRound(tuple(going)) if len(going) > waiting else None
