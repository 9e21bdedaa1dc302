"""A small process between driver and engine that stops the engine when the driver dies, even by SIGKILL.

    python -m engines.process.supervisor READ_FD STATUS_FD < ORDER

ORDER is JSON, {command, environment, folder, grace_s, secrets}. It comes on standard input, because others can read a
command line and an environment. The supervisor starts the command in its folder, in its own session, and waits until
the command or the driver ends. The driver keeps the other end of READ_FD open. When that end closes, by request or
because the driver was killed, the whole family of the command gets SIGTERM, and after `grace_s` seconds SIGKILL. It
writes one line to STATUS_FD: the pid, or why the command could not be started. The family's output goes to standard
output, without the secrets. The exit code is the engine's; 128 + n where signal n ended it.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time

import psutil

from engines.process.log_filter import scrubbed_pipe

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
# A process in an uninterruptible driver call survives even SIGKILL; it is reported, not waited for.
KILL_LIMIT_S = 20.0
# A process that still holds the log open has survived SIGKILL.
COPY_LIMIT_S = 5.0
_libc = ctypes.CDLL(None, use_errno=True)


def main() -> int:
    """Supervise one command; returns the exit code described above."""
    read_fd, status_fd = int(sys.argv[1]), int(sys.argv[2])
    order = json.load(sys.stdin)
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, signal.SIG_IGN)
    # Orphaned grandchildren become children of this process, so that none escapes by a double fork.
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    out, copier = scrubbed_pipe(order["secrets"], sys.stdout.fileno()) if order["secrets"] else (None, None)
    try:
        child = subprocess.Popen(
            order["command"],
            cwd=order["folder"],
            env={**os.environ, **order["environment"]},
            start_new_session=True,
            preexec_fn=_die_with_parent,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
    except OSError as error:
        os.write(status_fd, f"error {error.strerror}: {error.filename}\n".encode())
        return 127
    if out is not None:
        os.close(out)
    try:
        os.write(status_fd, f"pid {child.pid}\n".encode())
        os.close(status_fd)
    except OSError:
        # The driver has gone already; the code below handles that.
        pass
    while child.poll() is None:
        if select.select([read_fd], [], [], 0.1)[0] and not os.read(read_fd, 1):
            break
    end_family(child, order["grace_s"])
    if copier is not None:
        copier.join(COPY_LIMIT_S)
    code = child.returncode
    if code is None:
        return 128 + signal.SIGKILL
    return 128 - code if code < 0 else code


def _die_with_parent() -> None:
    # If this supervisor itself is killed, the kernel stops the engine.
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(sign, signal.SIG_DFL)
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def end_family(child: subprocess.Popen[bytes], grace_s: float) -> None:
    """Send SIGTERM to the child's group, then SIGKILL to every remaining descendant; reap all."""
    _signal_group(child.pid, signal.SIGTERM)
    for process in _descendants():
        # Processes outside the group get SIGTERM too. Those inside must not get a second one, which llama-server treats
        # as "stop at once".
        if _group_of(process.pid) != child.pid:
            _signal(process, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while time.monotonic() < deadline and (child.poll() is None or _descendants()):
        time.sleep(0.02)
        _reap(child.pid)
    deadline = time.monotonic() + KILL_LIMIT_S
    while (left := _descendants()) and time.monotonic() < deadline:
        for process in left:
            _signal(process, signal.SIGKILL)
        child.poll()
        _reap(child.pid)
        time.sleep(0.02)
    child.poll()
    # Reap now: init may be slow to collect zombies.
    _reap(child.pid)


def _descendants() -> list[psutil.Process]:
    members = []
    for process in psutil.Process().children(recursive=True):
        try:
            if process.status() != psutil.STATUS_ZOMBIE:
                members.append(process)
        except psutil.NoSuchProcess:
            continue
    return members


def _reap(except_pid: int) -> None:
    """Reap adopted grandchildren; Popen reaps the child itself."""
    for process in psutil.Process().children():
        if process.pid != except_pid:
            try:
                os.waitpid(process.pid, os.WNOHANG)
            except ChildProcessError:
                continue


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def _signal_group(group: int, sign: signal.Signals) -> None:
    try:
        os.killpg(group, sign)
    except (ProcessLookupError, PermissionError):
        return


def _signal(process: psutil.Process, sign: signal.Signals) -> None:
    try:
        process.send_signal(sign)
    except psutil.Error:
        return


if __name__ == "__main__":
    sys.exit(main())
