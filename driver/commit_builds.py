"""Checks out commits of another project's git tree and builds them, each once, in the cache."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from driver.errors import BenchError, ExitCode
from driver.run.launcher import last_line
from engines.build.source import cache_dir
from records import write_json

NOTE = ".enginebench-built.json"
TREE = "{tree}"
"""Placeholder in a command line for the folder of the built commit."""


class BuildFailedError(BenchError):
    """A commit that cannot be built: it is neither good nor bad."""


@dataclass(frozen=True, slots=True)
class BuiltTree:
    """A built commit and its folder."""

    sha: str
    subject: str
    path: Path

    @property
    def name(self) -> str:
        """The engine's name for this commit: `commit-` and the short hash."""
        return f"commit-{self.sha[:10]}"

    def fill(self, command: str) -> str:
        """A command line with the folder of this commit in place of {tree}."""
        return command.replace(TREE, shlex.quote(str(self.path)))


def git(source: Path, *arguments: str) -> str:
    """The output of a git command in a tree.

    Raises:
        BenchError: git failed; its last line says why (exit code 2).
    """
    process = subprocess.run(["git", "-C", str(source), *arguments], capture_output=True, text=True, check=False)
    if process.returncode:
        message = (process.stderr or process.stdout).strip().splitlines()[-1:] or ["no message"]
        raise BenchError(f"{source}: git {arguments[0]}: {message[0]}", ExitCode.USAGE)
    return process.stdout.strip()


def commit_of(source: Path, ref: str) -> str:
    """The hash of a commit, by any name that git knows.

    Raises:
        BenchError: there is no such commit (exit code 2).
    """
    try:
        return git(source, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
    except BenchError:
        raise BenchError(f"{source}: no commit {ref!r} in this git tree", ExitCode.USAGE) from None


def built(source: Path, ref: str, build: str | None, say: Callable[[str], None]) -> BuiltTree:
    """Check out a commit into the cache and build it there, unless that was done before.

    Args:
        source: a git tree; its own checkout is not changed.
        ref: the commit.
        build: the build command, run in the commit's folder without a shell; None to build nothing.
        say: called with one line before a long step.

    Raises:
        BuildFailedError: the build failed.
        BenchError: no such tree or commit (exit code 2).
    """
    sha = commit_of(source, ref)
    place = hashlib.sha256(git(source, "rev-parse", "--absolute-git-dir").encode()).hexdigest()[:8]
    path = cache_dir() / "trees" / place / sha[:16]
    tree = BuiltTree(sha, git(source, "log", "-1", "--format=%s", sha), path)
    if not (path / ".git").exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        git(source, "worktree", "prune")
        git(source, "worktree", "add", "--quiet", "--force", "--detach", str(path), sha)
    note = path / NOTE
    if build is None or (note.exists() and json.loads(note.read_text(encoding="utf-8")).get("build") == build):
        return tree
    say(f"building {sha[:10]} ({tree.subject})")
    started = time.monotonic()
    log = path.with_suffix(".log")
    # Lets ccache reuse objects that were compiled in another folder of the same project.
    env = {**os.environ, "CCACHE_BASEDIR": str(path), "CCACHE_NOHASHDIR": "1"}
    try:
        with log.open("wb") as out:
            words = shlex.split(tree.fill(build))
            code = subprocess.run(words, cwd=path, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=env).returncode
    except OSError as error:
        raise BenchError(f"--build: {error.filename or build}: {error.strerror}", ExitCode.USAGE) from None
    if code:
        raise BuildFailedError(f"{sha[:10]}: the build failed (exit code {code}): {last_line(log)}; see {log}")
    write_json(note, {"build": build, "seconds": round(time.monotonic() - started, 1)})
    return tree
