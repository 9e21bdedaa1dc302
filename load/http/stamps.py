"""When bytes arrived, by the kernel that received them: a busy event loop reads them later, and dates them no later.

Linux notes for every packet when it came in (`SO_TIMESTAMPNS`, socket(7)) and hands the time of the last one over with
the bytes that `recvmsg` returns. So no byte is dated before its arrival, and what waits for its reader, while that is
waking up or reading other streams, does not count as the engine's time: unless so long that more of the same stream
comes in, for the bytes of one read share one stamp. Where there is no such time (other systems, TLS) that of the read
stands.
"""

from __future__ import annotations

import socket
import struct
import sys
from typing import Any

SO_TIMESTAMPNS = 35
"""<asm-generic/socket.h>; the socket module has no name for it."""
TIMESPEC = struct.Struct("@ll")
CONTROL_BYTES = socket.CMSG_SPACE(TIMESPEC.size)


def ask_for_stamps(sock: Any) -> None:
    """Ask the kernel to note when packets of a socket arrive; without effect where it cannot."""
    if sys.platform != "linux":
        return
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    except OSError:
        return


def arrival_ns(control: Any, wall_ns: int, now_ns: int, after_ns: int) -> int:
    """When bytes arrived, on the monotonic clock: from `recvmsg`'s control messages and both clocks right after it.

    Where that would be before `after_ns`, the stream's last stamp or its send, a server spoke before it was asked, or
    the wall clock, by which the kernel stamps, was set meanwhile: the time of the read stands then, too.
    """
    if not control or len(control[0][2]) != TIMESPEC.size:
        return now_ns
    seconds, nanoseconds = TIMESPEC.unpack(control[0][2])
    age: int = wall_ns - seconds * 1_000_000_000 - nanoseconds
    return now_ns - age if 0 < age <= now_ns - after_ns else now_ns
