"""Clients that come and go at random leave nothing behind."""

from __future__ import annotations

import json
import random
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from ninfer_core.testing.live_server import LiveServer


def visit(server: LiveServer, seed: int) -> str:
    """One client: asks, reads for a while, and may hang up at any moment. What became of it."""
    choice = random.Random(seed)
    host, port = server.base_url.removeprefix("http://").split(":")
    fields = {
        "messages": [{"role": "user", "content": "x" * choice.randint(1, 100)}],
        "max_tokens": choice.randint(0, 80),
    }
    content = json.dumps(fields | {"stream": choice.random() < 0.7, "seed": seed}).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(
        content
    )
    patience = choice.choice([0.0, 0.005, 0.02, 0.05, 10.0])
    sent = head + content
    if choice.random() < 0.1:
        sent = sent[: choice.randint(1, len(sent) - 1)]
        patience = min(patience, 0.05)
    deadline = time.monotonic() + patience
    received = b""
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(sent)
        while (left := deadline - time.monotonic()) > 0:
            connection.settimeout(left)
            try:
                piece = connection.recv(4096)
            except TimeoutError:
                break
            received += piece
            if not piece:
                return received[9:12].decode()
    return "left"


@pytest.mark.contract("GEN-18", "EXEC-4", "EXEC-21")
def test_random_clients(serve: Callable[..., LiveServer]) -> None:
    server = serve(capacities={"max_concurrency": 4, "max_pending_requests": 14}, columns=4, slow_seconds=0.001)
    with ThreadPoolExecutor(16) as pool:
        outcomes = list(pool.map(lambda seed: visit(server, seed), range(300)))
    assert set(outcomes) <= {"200", "429", "left"}
    assert {"200", "left"} <= set(outcomes)
    deadline = time.monotonic() + 5
    while server.service.open_requests and time.monotonic() < deadline:
        time.sleep(0.01)
    assert server.service.open_requests == 0
    answer = httpx.post(
        server.base_url + "/v1/chat/completions", json={"messages": [{"role": "user", "content": "x"}], "max_tokens": 3}
    )
    assert answer.status_code == 200
