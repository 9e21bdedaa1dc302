"""Finds and checks TCP ports, and the process that holds one."""

from __future__ import annotations

import socket

import psutil

from engines.base import EngineError


def free_port(host: str = "127.0.0.1") -> int:
    """A port on which no process listens now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def port_is_free(host: str, port: int | None) -> bool:
    """Whether a server could listen there."""
    if port is None:
        return True
    with socket.socket() as probe:
        # As servers do, so that a connection in TIME_WAIT does not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def require_free_port(host: str, port: int | None, *, instead: str = "give the engine another `port`") -> None:
    """Check the port before a start; `instead` names the alternative to stopping the process that holds it.

    Raises:
        EngineError: the port is in use; the message names the process if it is visible.
    """
    if not port_is_free(host, port):
        raise EngineError(f"port {port} on {host} is in use{_holder(port)}; end that process or {instead}")


def _holder(port: int | None) -> str:
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.status != psutil.CONN_LISTEN or not connection.laddr or not connection.pid:
                continue
            if connection.laddr.port == port:
                return f" by pid {connection.pid} ({psutil.Process(connection.pid).name()})"
    except (psutil.Error, OSError):
        pass
    return ""
