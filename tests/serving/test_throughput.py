"""The throughput record as an operator reads it, of a real server in its two processes."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import httpx
import msgspec
import pytest

from ninfer_core.api.service import Speculation
from ninfer_core.engine.messages import Throughput
from ninfer_core.serving.throughput import throughput_fields
from ninfer_core.testing.server_process import server_process, until

INTERVAL = Throughput(
    seconds=5.0,
    prefill_tokens=12_345,
    decode_tokens=500,
    decode_rounds=250,
    decode_rows=500,
    speculation=Speculation(
        rounds=500, drafted_tokens=750, accepted_tokens=250, fallback_steps=4, accepted_per_position=(180, 70, 0)
    ),
    host_seconds=0.05,
    prefilling=1,
    decode_ready=2,
    waiting=3,
)


@pytest.mark.contract("OLOG-7", "OLOG-4")
def test_what_is_zero_is_left_out() -> None:
    assert throughput_fields(INTERVAL) == {
        "seconds": 5.0,
        "prefill_tokens_per_second": 2469.0,
        "decode_tokens_per_second": 100.0,
        "prefill_tokens": 12_345,
        "decode_tokens": 500,
        "average_batch": 2.0,
        "drafted_tokens": 750,
        "accepted_tokens": 250,
        "tokens_per_round": 1.5,
        "fallback_steps": 4,
        "accepted_per_position": "180/70/0",
        "running": 3,
        "prefilling": 1,
        "decode_ready": 2,
        "waiting": 3,
        "host_seconds": 0.05,
        "host_percent": 1.0,
    }
    kept = {"seconds", "prefill_tokens", "host_seconds"}
    quiet: dict[str, object] = {field: 0 for field in INTERVAL.__struct_fields__ if field not in kept}
    quiet["speculation"] = None
    assert list(throughput_fields(msgspec.structs.replace(INTERVAL, **quiet))) == [
        "seconds",
        "prefill_tokens_per_second",
        "prefill_tokens",
        "running",
        "host_seconds",
        "host_percent",
    ]


@pytest.mark.contract("OLOG-1", "OLOG-2", "OLOG-3", "OLOG-5", "OLOG-6", "OLOG-7", "OLOG-8", "OPT-11", "GEN-1")
def test_the_log_of_a_server(tmp_path: Path) -> None:
    script = tmp_path / "answers.json"
    script.write_text(json.dumps({"answers": [{"content": "marker-of-the-answer " * 8, "delay_ms": 20}]}))
    arguments = ("--scripted", str(script), "--log-stats-interval-ms", "100", "--api-key", "marker-of-the-key")
    with server_process(*arguments) as server:
        with httpx.Client(base_url=server.url, headers={"x-api-key": "marker-of-the-key"}, timeout=30) as http:
            asked = {"max_tokens": 100, "messages": [{"role": "user", "content": "marker-of-the-prompt"}]}
            assert http.post("/v1/chat/completions", json=asked).status_code == 200
            asked = {"max_tokens": 100, "messages": [{"role": "marker-of-a-role", "content": "x"}]}
            assert http.post("/v1/chat/completions", json=asked).status_code == 400
            assert http.post("/v1/messages", json={"model": "any", "messages": []}).status_code == 400
            assert http.post("/v1/responses", content=b"{marker-of-a-body").status_code == 400
        until(lambda: any(" request_done " in line for line in list(server.log)), 5)
        time.sleep(0.5)
        lines = list(server.log)
        time.sleep(0.5)
        assert server.log == lines  # nothing is written while nothing happens
        server.terminate()
        until(lambda: server.process.poll() is not None, 20)
        until(lambda: any(" stopped" in line for line in list(server.log)), 5)
        lines = list(server.log)
    form = re.compile(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} (DEBUG|INFO|WARNING|ERROR|CRITICAL) [a-z_]+( [a-z_]+=\S.*)?"
    )
    assert [line for line in lines if not form.fullmatch(line.rstrip("\n"))] == []
    assert "marker-of" not in "".join(lines)
    events = [line.split()[3] for line in lines]
    assert {"phase_done", "ready", "request_started", "request_done", "throughput", "draining", "stopped"} <= set(
        events
    )
    (done,) = (line for line in lines if " request_done " in line)
    assert 'cache="0 (0%)"' in done
    records = [dict(re.findall(r"([a-z_]+)=(\S+)", line)) for line in lines if " throughput " in line]
    prompt = int(dict(re.findall(r"([a-z_]+)=(\S+)", done))["prompt_tokens"])
    assert sum(int(record.get("prefill_tokens", 0)) for record in records) == prompt
    assert len(records) >= 2 and all(float(record["seconds"]) >= 0.1 for record in records)
    assert any(record.get("decode_ready") == record["running"] == "1" for record in records)
    assert all("e+" not in value for record in records for value in record.values())
