"""What a person sees while a run goes on: a live display on a terminal, plain lines in a log."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import orjson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from records import Record
from records.timing import timing
from records.wording import count
from reporting.escape import terminal


class CaptureTail:
    """Follows a requests.jsonl as it grows: how many measured requests have ended, and how they fare."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""
        self.done = 0
        self.errors = 0
        self._ttft_ms: list[float] = []
        self._tokens = 0
        self._first_sent: int | None = None
        self._last_end = 0

    def skip(self) -> None:
        """Leave out what is there already: it is of an earlier run, whose share is not asked again."""
        with contextlib.suppress(OSError):
            self._offset = self._path.stat().st_size

    def read(self) -> None:
        """Take in the lines that have come since the last call."""
        try:
            with self._path.open("rb") as capture:
                capture.seek(self._offset)
                new = capture.read()
        except OSError:
            return
        self._offset += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        for line in lines:
            try:
                self._take(Record.from_dict(orjson.loads(line)))
            except (orjson.JSONDecodeError, AttributeError, TypeError):
                continue

    def _take(self, record: Record) -> None:
        if not record.measured:
            return
        self.done += 1
        if not record.ok:
            self.errors += 1
            return
        ttft_ms = timing(record).ttft_ms
        if ttft_ms is not None and record.sent_ns is not None:
            self._ttft_ms.append(ttft_ms)
            self._tokens += record.completion_tokens or 0
            self._first_sent = min(self._first_sent or record.sent_ns, record.sent_ns)
            self._last_end = max(self._last_end, record.end_ns)

    def figures(self) -> str:
        """Live figures for the display only; reports compute theirs from the records."""
        if not self._ttft_ms or not self._first_sent:
            return f"{self.errors} failed" if self.errors else ""
        rate = self._tokens / max((self._last_end - self._first_sent) / 1e9, 1e-9)
        text = f"TTFT {median(self._ttft_ms):.0f} ms, {rate:.0f} tok/s"
        return f"{text}, {self.errors} failed" if self.errors else text


class Display:
    """Progress over a whole run. Everything goes to stderr: stdout is for results."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = Console(stderr=True, quiet=quiet, soft_wrap=True, highlight=False)
        self.live = sys.stderr.isatty() and not quiet
        self._started = time.monotonic()
        self._cells_done = 0
        self.cells_total = 0

    def say(self, message: str) -> None:
        """One line of what happens now; a message may quote an engine: neither escape sequence nor markup works."""
        elapsed = time.monotonic() - self._started
        line = f"[{int(elapsed // 60):02d}:{int(elapsed % 60):02d}] {terminal(message, limit=None)}"
        self._console.print(line, markup=False, emoji=False)

    @contextmanager
    def cell(self, label: str, total: int | None, capture: Path, *, seen: bool = False) -> Iterator[_CellDisplay]:
        """Show one cell; the yielded object's `tick()` is called while it runs. `seen` skips what is there already."""
        self._cells_done += 1
        tail = CaptureTail(capture)
        if seen:
            tail.skip()
        title = f"cell {self._cells_done}/{self.cells_total} {label}"
        if not self.live:
            self.say(f"{title}: started" + (f", {count(total, 'request')}" if total else ""))
            shown = _CellDisplay(tail, total, None, None, self.say, title)
            yield shown
            tail.read()
            self._say_end(title, tail)
            return
        bar = Progress(
            SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=12), MofNCompleteColumn(),
            TimeRemainingColumn(), TextColumn("left  {task.fields[figures]}"), console=self._console, transient=True,
        )  # fmt: skip
        with bar:
            task = bar.add_task(title, total=total, figures="")
            yield _CellDisplay(tail, total, bar, task, self.say, title)
        tail.read()
        self._say_end(title, tail)

    def _say_end(self, title: str, tail: CaptureTail) -> None:
        figures = tail.figures()
        self.say(f"{title}: {count(tail.done, 'request')}" + (f", {figures}" if figures else ""))


class _CellDisplay:
    _QUIET_S = 20.0

    def __init__(
        self, tail: CaptureTail, total: int | None, bar: Progress | None, task: Any, say: Any, title: str
    ) -> None:
        self._tail, self._total, self._bar, self._task, self._say, self._title = tail, total, bar, task, say, title
        self._started = self._said = time.monotonic()

    def tick(self) -> None:
        """Bring the display up to date; in a log one line every twenty seconds."""
        self._tail.read()
        if self._bar is not None:
            self._bar.update(self._task, completed=self._tail.done, figures=self._tail.figures())
            return
        now = time.monotonic()
        if now - self._said >= self._QUIET_S:
            self._said = now
            left = ""
            if self._total and self._tail.done:
                left = f", about {(now - self._started) / self._tail.done * (self._total - self._tail.done):.0f} s left"
            self._say(f"{self._title}: {self._tail.done}/{self._total or '?'} {self._tail.figures()}{left}")


@contextmanager
def step_progress(display: Display, title: str) -> Iterator[Callable[[int, int], None]]:
    """Progress of a job that counts its own steps: a bar on a terminal, a line each tenth in a log."""
    said = -1

    def plain(done: int, total: int) -> None:
        nonlocal said
        tenth = done * 10 // max(total, 1)
        if tenth > said:
            said = tenth
            display.say(f"{title}: {done}/{total}")

    if not display.live:
        yield plain
        return
    with Progress(TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
