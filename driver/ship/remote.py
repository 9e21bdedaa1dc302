"""Accesses the other host with only ssh and tar: it may have no rsync and none of our Python packages."""

from __future__ import annotations

import shlex
import subprocess
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from driver.errors import BenchError, ExitCode
from driver.ship.part import ROOT, Part, write_part

Say = Callable[[str], None]
SSH_FAILED = 255


@dataclass(frozen=True, slots=True)
class Remote:
    """A folder on a host. `ssh` is the ssh command, such as ("ssh", "-p", "2222")."""

    host: str
    folder: str
    ssh: Sequence[str] = ("ssh",)

    def command(self, script: str, *, make: bool = False) -> list[str]:
        """The command line for a shell script in that folder."""
        folder = shlex.quote(self.folder) if not self.folder.startswith("~/") else "~/" + shlex.quote(self.folder[2:])
        enter = f"mkdir -p {folder} && cd {folder}" if make else f"cd {folder}"
        # Without BatchMode, a password prompt would hang an unattended job.
        return [*self.ssh, "-o", "BatchMode=yes", self.host, f"{enter} && {{ {script}\n}}"]

    def parts(self) -> dict[str, str]:
        """Name -> digest of the parts that arrived completely."""
        script = 'for f in .shipped/*; do [ -f "$f" ] && echo "${f##*/} $(cat "$f")"; done; true'
        lines = self._ask(script, make=True).splitlines()
        return dict(line.split(" ", 1) for line in lines if " " in line)

    def send(self, part: Part) -> None:
        """Stream one part. The host marks it as arrived only after it has unpacked the last byte.

        Raises:
            BenchError: ssh or tar failed.
        """
        mark = shlex.quote(f".shipped/{part.name}")
        script = f"mkdir -p .shipped && rm -f {mark} && tar xf - && echo {part.digest} > {mark}"
        with subprocess.Popen(
            self.command(script, make=True), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdin is not None and process.stderr is not None
            try:
                with tarfile.open(fileobj=process.stdin, mode="w|") as tar:
                    write_part(tar, part)
                process.stdin.close()
            except BrokenPipeError:
                pass
            except BaseException:
                process.kill()
                raise
            output = process.stderr.read().decode(errors="replace")
        if process.returncode:
            raise BenchError(
                f"{self.host}: {part.name} did not arrive: {_last(output)}; run the same command again to continue"
            )

    def call(self, script: str, say: Say) -> None:
        """Run a script on the host, and show its lines as they arrive.

        Raises:
            BenchError: the script failed; the message is its last line.
        """
        code, last = self._stream(script, say)
        if code:
            raise BenchError(f"{self.host}: {last or f'exit code {code}'}")

    def follow(self, run_id: str, profile: str, *, build: bool, say: Say) -> int | None:
        """Start a run on the host, or follow it if it is running; None if the connection broke before its end."""
        words = ["sh", "driver/ship/run.sh", run_id, profile, "build" if build else "no-build"]
        code, _ = self._stream(" ".join(map(shlex.quote, words)), say)
        return None if code == SSH_FAILED else code

    def fetch(self, path: str, out: Path) -> None:
        """Fetch a run's folder into `out`; files of an earlier attempt are overwritten.

        Raises:
            BenchError: ssh failed, the folder is missing, or the host sent anything else.
        """
        parent, _, name = path.rpartition("/")
        script = f"tar cf - -C {shlex.quote(parent or '.')} {shlex.quote(name)}"
        with subprocess.Popen(self.command(script), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None and process.stderr is not None
            try:
                _unpack(process.stdout, out / name)
            except (tarfile.TarError, OSError) as error:
                process.kill()
                output = process.stderr.read().decode(errors="replace")
                raise BenchError(f"{self.host}: {path} did not come back: {_last(output) or error}") from None
            output = process.stderr.read().decode(errors="replace")
        if process.returncode:
            raise BenchError(f"{self.host}: {path} did not come back: {_last(output)}")

    def python(self) -> str:
        """The version of the host's Python, such as 3.12.

        Raises:
            BenchError: ssh failed, or the host has no Python.
        """
        return self._ask("python3 -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])'", make=True).strip()

    def project_path(self, profile: str) -> str:
        """The name of a profile on the host: a bare name, or a path inside the project.

        Raises:
            BenchError: the file is outside the project, so it was not shipped (exit code 2).
        """
        path = Path(profile)
        if not path.exists():
            return profile
        if not path.resolve().is_relative_to(ROOT):
            raise BenchError(
                f"{profile}: is outside the project and would not be shipped; put it into profiles/", ExitCode.USAGE
            )
        return str(path.resolve().relative_to(ROOT))

    def _ask(self, script: str, *, make: bool = False) -> str:
        ssh = subprocess.run(self.command(script, make=make), capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if ssh.returncode:
            raise BenchError(f"{self.host}: {_last(ssh.stderr) or f'ssh ended with code {ssh.returncode}'}")
        return ssh.stdout

    def _stream(self, script: str, say: Say) -> tuple[int, str]:
        last = ""
        with subprocess.Popen(
            self.command(script), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    last = line.rstrip() or last
                    say(line.rstrip())
            except BaseException:
                process.kill()
                raise
        return process.returncode, last


def _unpack(stream: IO[bytes], folder: Path) -> None:
    """Unpack the archive of a run's folder. The host is untrusted: it may write only inside that folder.

    Raises:
        tarfile.TarError: the archive is broken, or has a member that is not a file or folder of the run.
    """
    if folder.is_symlink():
        raise tarfile.TarError(f"{folder} is a link")
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        for member in tar:
            top, _, inside = member.name.removeprefix("./").partition("/")
            # A link could redirect a later member to any place.
            if top != folder.name or not (member.isreg() or member.isdir()):
                raise tarfile.TarError(f"the host sent {member.name!r}, which is no file of the run")
            member.name = inside or "."
            tar.extract(member, folder, filter="data")


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""
