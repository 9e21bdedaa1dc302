"""A real sshd on loopback with a key of its own, for as long as a test runs."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def sshd(folder: Path) -> Iterator[str]:
    """Yields the ssh command that reaches it."""
    daemon = shutil.which("sshd") or ("/usr/sbin/sshd" if Path("/usr/sbin/sshd").exists() else None)
    if daemon is None or shutil.which("ssh") is None:
        pytest.skip("no sshd here (Debian: apt-get install openssh-server)")
    folder.mkdir(mode=0o700)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    shutil.copy(folder / "user.pub", folder / "authorized")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = {
        "Port": port,
        "ListenAddress": "127.0.0.1",
        "HostKey": folder / "host",
        "AuthorizedKeysFile": folder / "authorized",
        "PidFile": folder / "pid",
        "UsePAM": "no",
        "StrictModes": "no",
        "PasswordAuthentication": "no",
    }
    config = folder / "config"
    config.write_text("".join(f"{key} {value}\n" for key, value in options.items()))
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([daemon, "-D", "-e", "-f", str(config)], stderr=log)
    try:
        deadline = time.monotonic() + 15
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    pytest.skip(f"sshd does not start here: {(folder / 'log').read_text()[-200:]}")
                time.sleep(0.05)
        yield (
            f"ssh -p {port} -i {folder / 'user'} -F none -o IdentitiesOnly=yes -o StrictHostKeyChecking=no "
            f"-o UserKnownHostsFile={folder / 'known'} -o LogLevel=ERROR"
        )
    finally:
        process.terminate()
        process.wait(10)
