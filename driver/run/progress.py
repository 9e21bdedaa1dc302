"""Shows the progress of a run: one live table on a terminal, plain lines in a log."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import orjson
from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from records import JsonObject, Record, read_json
from records.latency_definitions import timing
from records.redaction import scrub
from records.wording import count
from reporting.escape import terminal

_WIDE = 100
"""Columns from which a terminal shows each cell in one line."""


class CaptureTail:
    """Follows a growing requests.jsonl: counts measured requests and errors, and computes running figures."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""
        self.done = 0
        self.errors = 0
        self._ttft_ms: list[float] = []
        self._tpot_ms: list[float] = []
        self._ttft_of_turn: dict[int, list[float]] = {}
        self._tokens = 0
        self._first_sent: int | None = None
        self._last_end = 0
        self._scenario_ns = 0
        self.levels: list[JsonObject] = []
        """Levels of a capacity search that are judged."""

    def skip(self) -> None:
        """Skip the present lines: an earlier run wrote them, and their requests are not asked again."""
        with contextlib.suppress(OSError):
            self._offset = self._path.stat().st_size

    def read(self) -> None:
        """Read the lines that were added since the last call."""
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

    def read_levels(self) -> list[JsonObject]:
        """The levels of a capacity search that were judged since the last call, from scenario.json."""
        path = self._path.with_name("scenario.json")
        try:
            changed_ns = path.stat().st_mtime_ns
            if changed_ns == self._scenario_ns:
                return []
            capacity = read_json(path).get("capacity") or {}
        except (OSError, ValueError):
            return []
        self._scenario_ns = changed_ns
        judged = [level for level in capacity.get("levels") or [] if level.get("verdict")]
        new, self.levels = judged[len(self.levels) :], judged
        return new

    def _take(self, record: Record) -> None:
        if not record.measured:
            return
        self.done += 1
        self.errors += record.failed
        if not record.ok:
            return
        times = timing(record)
        if (ttft_ms := times.ttft_ms) is not None and record.sent_ns is not None:
            self._ttft_ms.append(ttft_ms)
            if record.turn is not None:
                self._ttft_of_turn.setdefault(record.turn, []).append(ttft_ms)
            if times.tpot_ms is not None:
                self._tpot_ms.append(times.tpot_ms)
            self._tokens += record.completion_tokens or 0
            self._first_sent = min(self._first_sent or record.sent_ns, record.sent_ns)
            self._last_end = max(self._last_end, record.end_ns)

    @property
    def ttft_ms(self) -> float | None:
        """Median time to first token so far. Reports compute their figures from the records."""
        return median(self._ttft_ms) if self._ttft_ms else None

    @property
    def turns(self) -> str:
        """Median TTFT of the first and the last turn of conversations so far, in words; empty for single questions."""
        ends = dict.fromkeys((min(self._ttft_of_turn), max(self._ttft_of_turn))) if self._ttft_of_turn else {}
        return ", ".join(f"turn {turn} {median(self._ttft_of_turn[turn]):,.0f} ms" for turn in ends)

    @property
    def tpot_ms(self) -> float | None:
        """Median time per output token so far."""
        return median(self._tpot_ms) if self._tpot_ms else None

    @property
    def tok_s(self) -> float | None:
        """Output tokens per second from the first send to the last end so far."""
        if not self._ttft_ms or not self._first_sent:
            return None
        return self._tokens / max((self._last_end - self._first_sent) / 1e9, 1e-9)

    def figures(self) -> str:
        """The figures so far as text, for a log."""
        words = [
            f"{name}{value:.0f} {unit}"
            for name, value, unit in (("TTFT ", self.ttft_ms, "ms"), ("", self.tok_s, "tok/s"))
            if value is not None
        ]
        words[:1] = [f"{words[0]} ({self.turns})"] if words and self.turns else words[:1]
        return ", ".join([*words, *([f"{self.errors} failed"] if self.errors else [])])


class Display:
    """Progress over a whole run: on a terminal one table that grows, else plain lines.

    Everything goes to stderr: stdout is for results. Use it as a context manager around a run.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = Console(stderr=True, quiet=quiet, highlight=False)
        self.live = sys.stderr.isatty() and not quiet
        self._started = time.monotonic()
        self._cells: list[CellProgress] = []
        self._table: Live | None = None
        self.cells_total = 0

    def __enter__(self) -> Display:
        return self

    def __exit__(self, *_: object) -> None:
        if self._table:
            self._table.stop()
            self._table = None

    def say(self, message: str) -> None:
        """Print one line. A message may quote an engine, so escape sequences and markup have no effect."""
        line = f"[{_clock(time.monotonic() - self._started)}] {terminal(scrub(message), limit=None)}"
        self._console.print(line, markup=False, emoji=False, soft_wrap=True)

    @contextmanager
    def cell(self, label: str, total: int | None, capture: Path, *, seen: bool = False) -> Iterator[CellProgress]:
        """Show one cell. Call the yielded object's `tick()` while it runs. `seen` skips existing records."""
        tail = CaptureTail(capture)
        if seen:
            tail.skip()
        title = f"cell {len(self._cells) + 1}/{self.cells_total} {label}"
        cell = CellProgress(label, title, tail, total, None if self.live else self.say)
        self._cells.append(cell)
        if self.live and self._table is None:
            self._table = Live(console=self._console, get_renderable=self._render, refresh_per_second=4)
            self._table.start()
        if not self.live:
            self.say(f"{title}: started" + (f", {count(total, 'request')}" if total else ""))
        yield cell
        cell.end()

    def _render(self) -> Table | Text:
        """The cells so far, the newest last, as many as the terminal has lines for."""
        narrow = self._console.width < _WIDE
        lines = max(self._console.height - 4, 2) // (2 if narrow else 1)
        cells = self._cells[-lines:]
        heading = f"cell ({len(self._cells)} of {self.cells_total})"
        if narrow:
            return Text("\n").join([Text(heading, style="dim"), *(cell.two_lines() for cell in cells)])
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column(heading, overflow="fold")
        for name in ("requests", "TTFT ms", "TPOT ms", "tok/s", "failed", "time"):
            table.add_column(name, justify="right", no_wrap=True)
        for cell in cells:
            tail = cell.tail
            figures = ("" if v is None else f"{v:,.0f}" for v in (tail.ttft_ms, tail.tpot_ms, tail.tok_s))
            failed = Text(str(tail.errors or ""), style="red")
            table.add_row(cell.styled_label, cell.requests, *figures, failed, cell.time)
        return table


class CellProgress:
    """The progress of one cell. In a log it prints a line every twenty seconds."""

    _QUIET_S = 20.0

    def __init__(
        self, label: str, title: str, tail: CaptureTail, total: int | None, say: Callable[[str], None] | None
    ) -> None:
        self.label = label
        self.tail = tail
        self.running = True
        self._title, self._total, self._say = title, total, say
        self._started = self._said = time.monotonic()
        self._took_s = 0.0

    @property
    def requests(self) -> str:
        """Number of ended requests, with the requested total."""
        return f"{self.tail.done}/{self._total}" if self._total else str(self.tail.done)

    @property
    def left_s(self) -> float | None:
        """Estimated remaining seconds; None if unknown."""
        if not self._total or not self.tail.done:
            return None
        return (time.monotonic() - self._started) / self.tail.done * max(0, self._total - self.tail.done)

    @property
    def time(self) -> str:
        """The duration of the cell; while it runs, the remaining time."""
        if not self.running:
            return _clock(self._took_s)
        return f"-{_clock(self.left_s)}" if self.left_s is not None else _clock(time.monotonic() - self._started)

    @property
    def styled_label(self) -> Text:
        """The cell's name (dim once it has ended), with the levels that a capacity search has judged so far."""
        levels = " ".join(f"{level['level']:g}:{level['verdict']}" for level in self.tail.levels[-4:])
        return Text(terminal(f"{self.label} {levels or self.tail.turns}".rstrip()), style="" if self.running else "dim")

    def two_lines(self) -> Text:
        """The cell on a narrow terminal: its name, and its figures below."""
        words = [f"{self.requests} requests", *filter(None, [self.tail.figures()]), self.time]
        return self.styled_label + Text(f"\n  {', '.join(words)}")

    def tick(self) -> None:
        """Bring the display up to date."""
        self._read()
        now = time.monotonic()
        if self._say and now - self._said >= self._QUIET_S:
            self._said = now
            left = f", about {self.left_s:.0f} s left" if self.left_s is not None else ""
            self._say(f"{self._title}: {self.tail.done}/{self._total or '?'} {self.tail.figures()}{left}")

    def _read(self) -> None:
        self.tail.read()
        for level in self.tail.read_levels():
            if self._say:
                result = f"level {level['level']:g} {level['verdict']} ({level['share']:.1%} of {level['requests']})"
                self._say(f"{self._title}: {result}")

    def end(self) -> None:
        """Read the last records; a log gets the cell's figures."""
        self._read()
        self.running, self._took_s = False, time.monotonic() - self._started
        if self._say:
            figures = self.tail.figures()
            self._say(f"{self._title}: {count(self.tail.done, 'request')}" + (f", {figures}" if figures else ""))


def _clock(seconds: float) -> str:
    return f"{int(seconds // 60):02d}:{int(seconds % 60):02d}"


@contextmanager
def step_progress(display: Display, title: str) -> Iterator[Callable[[int, int], None]]:
    """Progress of a job that counts its own steps: a bar on a terminal, a line per 10% in a log."""
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
