"""A live server that says what it was told to, through everything but the model: for tests of protocols and clients.

Unlike a scripted service, the answers are generated text: they go through sessions, stop strings and the family's
parser. `ninfer serve --scripted` is the same in two processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from ninfer_core.api.protocol import ProtocolContext, ProtocolRoutes
from ninfer_core.engine.scripted.program import scripted_engine
from ninfer_core.engine.scripted.script import Script, problems_of
from ninfer_core.plan.pins import resolve_pinned
from ninfer_core.plugins import PluginRegistry
from ninfer_core.serving.inline_link import InlineLink
from ninfer_core.serving.sampling import ScriptedSampling
from ninfer_core.telemetry import Log, create_log
from ninfer_core.testing.live_server import LiveServer, live_server
from ninfer_core.testing.tiny import tiny_header, tiny_plan

MODEL_ID = "tiny-random"
"""What requests may call the model."""


@contextmanager
def scripted_server(
    answers: Sequence[dict[str, Any]],
    build_protocols: Callable[[ProtocolContext], list[ProtocolRoutes]],
    *,
    log: Log | None = None,
    options: dict[str, Any] | None = None,
    **server: Any,
) -> Iterator[LiveServer]:
    """Serve `answers`, written as in docs/scripted.md, with the frontend of the tiny model on a free port.

    `options` are fields of ServeOptions that the plan is made with; `server` goes to `live_server`. In the end no
    place may be taken and no row be open, unless an answer lets the engine fail.
    """
    script = msgspec.convert({"answers": answers}, Script)
    problems = [problem for answer in script.answers for problem in problems_of(answer)]
    assert not problems, problems
    registry, header, used_log = PluginRegistry.discover(), tiny_header(), log or create_log("off")
    plan = tiny_plan(registry, header, **{"max_concurrency": 4, "kv_capacity": "auto", **(options or {})})
    (family,) = resolve_pinned(plan, registry)["family"]
    frontend = family.hook.ninfer_family_frontend(header=header)
    scripted, program = scripted_engine(plan, frontend, script)
    link = InlineLink(plan, scripted, lambda on_phase: program, used_log)
    with live_server(
        plan, link, build_protocols, frontend=frontend, sampling=ScriptedSampling(plan, script), log=used_log, **server
    ) as running:
        yield running
    assert running.service.open_requests == 0
    assert program.open_rows == 0 or any(answer.fail for answer in script.answers)
