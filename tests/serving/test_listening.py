from __future__ import annotations

import asyncio
import socket
import sys

import pytest
import uvloop

from ninfer_core.api.errors import StartFailed, StartupError
from ninfer_core.serving.asgi import Receive, Scope, Send
from ninfer_core.serving.listening import listening_socket
from ninfer_core.serving.server import HTTPServer
from ninfer_core.telemetry import create_log


@pytest.mark.contract("GEN-17")
@pytest.mark.skipif(sys.platform != "linux", reason="these options are Linux's")
def test_accepted_sockets_find_dead_peers() -> None:
    with listening_socket("127.0.0.1", 0) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()):
            accepted, _ = listener.accept()
            with accepted:
                assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 15_000
                idle, interval, probes = (
                    accepted.getsockopt(socket.IPPROTO_TCP, option)
                    for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
                )
                assert idle + interval * probes <= 20


def test_a_port_in_use_is_named() -> None:
    with listening_socket("127.0.0.1", 0) as listener:
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(StartFailed, match=rf"port {port} on 127\.0\.0\.1 is in use"):
            listening_socket("127.0.0.1", port)


def test_of_two_that_start_at_once_one_says_so_before_it_is_ready() -> None:
    """Both may bind before either listens."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("nobody asks")

    ready: list[bool] = []
    with listening_socket("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with listening_socket("127.0.0.1", port) as second:
            first.listen()
            server = HTTPServer(application, create_log("error"), on_listening=lambda: ready.append(True))
            with (
                asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
                pytest.raises(StartFailed, match=rf"port {port} on 127\.0\.0\.1 is in use"),
            ):
                runner.run(asyncio.wait_for(server.run_on(second), 5))
    assert not ready


def test_a_host_that_means_nothing_is_named() -> None:
    with pytest.raises(StartupError, match="--host"):
        listening_socket("no.such.host.invalid", 0)
    with pytest.raises(StartFailed, match="cannot listen"):
        listening_socket("203.0.113.1", 0)
