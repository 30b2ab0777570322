"""What the front is told besides the plan."""

from __future__ import annotations

from typing import Any

import pytest

from ninfer_core.plan.option_info import SecretText
from ninfer_core.plan.options import ServeOptions
from ninfer_core.plan.settings import server_settings


@pytest.mark.contract("GEN-20", "OPT-4", "OPT-15", "OPT-20", "OPT-21")
def test_settings(toy: Any) -> None:
    identity = toy.header().identity
    settings = server_settings(ServeOptions(), identity)
    assert (settings.host, settings.port, settings.model_id) == ("127.0.0.1", 8080, "toy-1")
    assert settings.max_request_bytes == 384 * 2**20
    assert (settings.response_store_max_records, settings.response_store_max_bytes) == (1024, 256 * 2**20)
    assert (settings.api_key, settings.cors, settings.log_level) == (None, False, "info")
    named = server_settings(ServeOptions(model_id="mine", api_key=SecretText("hunter2"), max_request_mib=1), identity)
    assert named.model_id == "mine"
    assert named.max_request_bytes == 2**20
    assert "hunter2" not in repr(named)
