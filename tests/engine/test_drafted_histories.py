"""Random histories on a program with drafts: every request gets what it gets alone without them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from ninfer_core.api import DrafterNeeds
from ninfer_core.program.build import build_program
from ninfer_core.testing.scripted_drafters import BACKEND, Remembering, scripted_registry, with_drafter, with_needs
from ninfer_core.testing.tiny import tiny_artifact, tiny_plan
from tests.engine.test_real_histories import MAX_CONTEXT, Played, play_alone, play_many


@pytest.fixture(scope="module")
def drafted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Played, Remembering]]:
    """Requests whose outcomes are those of a plain program, for one with a drafter that has seen their answers."""
    torch.set_num_threads(1)
    folder: Path = tmp_path_factory.mktemp("scripted")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        registry = scripted_registry(folder)
        (offer,) = [offer for offer in registry.offers("family") if offer.name == "qwen-hybrid"]
        artifact, drafter = tiny_artifact(), Remembering()
        frontend = registry.load(offer).hook.ninfer_family_frontend(header=artifact.header)
        header = with_needs(artifact.header, DrafterNeeds(runs_on="host"))
        sizes = {"max_context": MAX_CONTEXT, "max_concurrency": 4, "kv_capacity": MAX_CONTEXT + 5 * 64}
        plans = [tiny_plan(registry, header, **sizes, **more) for more in ({}, {"spec": BACKEND, "draft_tokens": 4})]
        programs = []
        for plan in plans:
            with artifact.open_weights() as weights:
                given = with_drafter(header, drafter)
                programs.append(build_program(plan, given, weights, registry, torch.device("cpu"), lambda *_: None))
        alone = play_alone(plans[0], programs[0], frontend)
        ready = Played(plans[1], programs[1], frontend, alone.pool, alone.alone)
        for wish, expected in zip(alone.pool, alone.alone, strict=True):
            assert ready.answer(wish) == expected, "also by a drafter that knows nothing yet"
        yield ready, drafter


@pytest.mark.contract("EXEC-1", "EXEC-2", "EXEC-8", "TMPL-12", "CHAT-11")
def test_random_histories_with_drafts_change_no_text(drafted: tuple[Played, Remembering]) -> None:
    played, drafter = drafted
    seen = play_many(played, range(12))
    assert {"client_disconnected", "output_limit", "stop_string", "control"} <= {
        what for what, count in seen.items() if count
    }
    assert drafter.told == {} and drafter.proposed > 50


@pytest.mark.long
def test_five_hundred_histories_with_drafts(drafted: tuple[Played, Remembering]) -> None:
    seen: Counter[str] = play_many(drafted[0], range(2000, 2500))
    limits = ("request_queue_timeout", "output_limit", "context_capacity", "stop_string")
    assert all(seen[what] for what in ("client_disconnected", *limits, "control"))
