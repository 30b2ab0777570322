"""The listening socket. Accepted sockets inherit its TCP options, which is how dead peers are found (GEN-17, 18)."""

from __future__ import annotations

import errno
import socket
import sys

from ninfer_core.api.errors import StartFailed, StartupError

PEER_TIMEOUT_SECONDS = 15
"""Unacknowledged data or keepalive probes for this long: the peer is dead (contract GEN-17)."""

_KEEPALIVE_SECONDS = 5


def listening_socket(host: str, port: int) -> socket.socket:
    """A bound socket; whoever serves it makes it listen. Port 0 takes a free one.

    Raises StartFailed when the address cannot be had, StartupError when the host means nothing.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError) as problem:
        raise StartupError(f"--host {host}: no such address ({problem}); 127.0.0.1 is this machine alone") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        _find_dead_peers(listener)
        listener.bind(address)
    except OSError as problem:
        listener.close()
        raise address_refused(host, port, problem) from None
    return listener


def address_refused(host: str, port: int, problem: OSError) -> StartFailed:
    """What binding or listening failed with, and the way out."""
    if problem.errno == errno.EADDRINUSE:
        return StartFailed(f"port {port} on {host} is in use by another program; stop it or choose another --port")
    return StartFailed(f"cannot listen on {host} port {port}: {problem.strerror}; choose another --host or --port")


def _find_dead_peers(listener: socket.socket) -> None:
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        probes = PEER_TIMEOUT_SECONDS // _KEEPALIVE_SECONDS
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_SECONDS)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_SECONDS)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, probes)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, PEER_TIMEOUT_SECONDS * 1000)
