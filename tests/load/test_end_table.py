"""The table at the end of a headless test holds the figures that the definitions give for its records."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.load.load import ROOT
from tests.load.scripted_server import ScriptedServer, paced

OF_RECORDS = """
from load.end_table import EndTable
from tests.load.test_live import made
table = EndTable()
for n in range({count}):
    table.add(made(n, chunks=5, gap_ms=10.0, ttft_ms=50.0 + n))
table.add(made(0, phase="warmup"))
table.add(made(0, status="error", error={{"kind": "busy", "message": "m"}}))
print("\\n".join(table.lines()))
"""


def table(count: int) -> list[list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", OF_RECORDS.format(count=count)], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [line.split() for line in done.stdout.splitlines()]


def test_the_table_holds_the_figures_of_the_definitions_and_withholds_tails() -> None:
    rows = {row[0]: row[1:7] for row in table(100) if row}
    assert rows["TTFT"] == ["100", "99.50", "139.10", "–", "–", "99.50"]
    assert rows["TPOT"] == ["100", "10.00", "10.00", "–", "–", "10.00"]
    assert rows["E2E"][:2] == ["100", "139.50"]
    # One token in every event: ICL would say the same as ITL.
    assert "ITL" in rows and "ICL" not in rows
    # 500 tokens from the first send at 0 s to the last end at 99.189 s.
    assert " ".join(table(100)[-3]) == "Output tokens/s over the whole test: 5.04"
    assert " ".join(table(100)[-2]) == "Requests: 100 ok, 1 failed: busy 1"


def test_plain_locust_ends_with_the_table(tmp_path: Path) -> None:
    with ScriptedServer(lambda asked: list(paced(["a"] * 4, first_s=0.02, gap_s=0.01))) as server:
        argv = [sys.executable, "-m", "locust", "-f", str(ROOT / "locustfiles" / "single.py"), "--headless"]
        argv += ["--host", server.url, "--requests", "3", "--capture-dir", str(tmp_path)]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]
    assert [line.split()[:2] for line in done.stdout.splitlines() if line.startswith(("TTFT", "TPOT", "E2E"))] == [
        ["TTFT", "3"],
        ["TPOT", "3"],
        ["E2E", "3"],
    ]
    assert "Requests: 3 ok, 0 failed" in done.stdout
