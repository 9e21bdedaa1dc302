"""Reads the kernel's time stamps of arriving bytes, so that a busy event loop does not make them seem late.

Linux stamps each packet when it arrives (`SO_TIMESTAMPNS`, socket(7)); `recvmsg` returns the time of the last packet
with the bytes. So the time that bytes wait for this process is not charged to the engine, unless more of the same
stream arrives meanwhile: the bytes of one read share one stamp. Other systems and TLS have no such stamps; there the
time of the read is used.
"""

from __future__ import annotations

import socket
import struct
import sys
from typing import Any

SO_TIMESTAMPNS = 35
"""From <asm-generic/socket.h>; the socket module has no name for it."""
TIMESPEC = struct.Struct("@ll")
CONTROL_BYTES = socket.CMSG_SPACE(TIMESPEC.size)


def ask_for_stamps(sock: Any) -> None:
    """Ask the kernel to stamp the packets of a socket, on systems that can."""
    if sys.platform != "linux":
        return
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    except OSError:
        return


def arrival_ns(control: Any, wall_ns: int, now_ns: int, after_ns: int) -> int:
    """The arrival of bytes on the monotonic clock, from `recvmsg`'s control messages and both clocks right after it.

    `after_ns` is the stream's last stamp or its send. An earlier arrival is impossible (the kernel's wall clock was set
    meanwhile) or does not belong to this request: then the time of the read is used.
    """
    if not control or len(control[0][2]) != TIMESPEC.size:
        return now_ns
    seconds, nanoseconds = TIMESPEC.unpack(control[0][2])
    age: int = wall_ns - seconds * 1_000_000_000 - nanoseconds
    return now_ns - age if 0 < age <= now_ns - after_ns else now_ns
