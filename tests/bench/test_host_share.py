from __future__ import annotations

import time

import pytest

from ninfer_core.api.errors import StartFailed
from ninfer_core.bench.host_share import exposed_share
from ninfer_core.testing.simulated_frontend import SimulatedFrontend
from ninfer_core.testing.simulated_plan import simulated_plan
from ninfer_core.testing.simulated_program import simulated_program


def test_a_run_that_goes_well_has_a_share() -> None:
    plan, frontend = simulated_plan(), SimulatedFrontend()
    frontend.stop_token_ids = ()
    share = exposed_share(plan, simulated_program(plan), frontend, [[1, 2, 3], [4, 5]], 40)
    assert share is None or 0.0 <= share <= 1.0


def test_an_engine_that_fails_is_not_waited_for() -> None:
    plan, begin = simulated_plan(), time.monotonic()
    program = simulated_program(plan, fail_at_unit=3)
    with pytest.raises(StartFailed, match="the engine failed while its share of the time was measured"):
        exposed_share(plan, program, SimulatedFrontend(), [[1, 2, 3], [4, 5]], 40)
    assert time.monotonic() - begin < 20
