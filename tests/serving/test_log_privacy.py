"""Nothing that a client sends or is told, and no key, gets into the operational log (handed case lg-01)."""

from __future__ import annotations

import io
import json
from collections.abc import Callable

import httpx
import pytest

from ninfer_core.telemetry import create_log
from ninfer_core.testing.live_server import LiveServer

CHAT = "/v1/chat/completions"
KEY, WORD = "sekret-key", "Rumpelstilzchen"


@pytest.mark.contract("AUTH-1", "OLOG-1")
def test_a_log_of_everything_has_no_text_and_no_key(serve: Callable[..., LiveServer]) -> None:
    stream = io.StringIO()
    server = serve(api_key=KEY, log=create_log("trace", stream))
    said = {"messages": [{"role": "user", "content": WORD}], "max_tokens": 12, "seed": 3}
    tool = {"type": "function", "function": {"name": WORD, "parameters": {}}}
    refused = [
        {**said, "messages": [{"role": WORD, "content": "x"}]},
        {**said, "stop": [WORD] * 99},
        {**said, "model": WORD},
        {**said, "messages": [{"role": "user", "content": WORD * 99}]},
        {**said, "tools": [tool], "tool_choice": "required"},
    ]
    bodies = [*map(json.dumps, refused), f'{{"messages": "{WORD}', f'{{"a": "{WORD}\\ud800"}}']
    with httpx.Client(base_url=server.base_url, timeout=30, headers={"authorization": f"Bearer {KEY}"}) as http:
        for stream_it in (False, True):
            answered = http.post(CHAT, json={**said, "stream": stream_it})
            assert answered.status_code == 200
        texts = [http.post(CHAT, json={**said, "stop": ["never"]}).json()["choices"][0]["message"]["content"]]
        assert {http.post(CHAT, content=body).status_code for body in bodies} <= {400, 404}
        assert http.get(f"/v1/{WORD}", params={"q": WORD}).status_code == 404
    wrong = httpx.post(server.base_url + CHAT, json=said, headers={"authorization": f"Bearer {KEY}{WORD}"})
    assert wrong.status_code == 401
    log = stream.getvalue()
    assert log.count("request_done") == 3 and "request_rejected" in log
    for hidden in (KEY, WORD, *(text for text in texts if len(text) > 3)):
        assert hidden not in log
