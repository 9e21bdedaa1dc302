"""The built wheel works alone: in an environment of its own, from an empty folder, without the checkout."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest
import requests

from engines import create, running
from engines.base import EngineConfig

ROOT = Path(__file__).resolve().parents[1]
DATA = {".toml", ".sh", ".j2", ".html", ".css", ".js", ".py"}
PACKAGES = ("driver", "engines", "load", "locustfiles", "nightly", "profiles", "records", "reporting", "scoring")

PROFILE = """
name = "p"
baseline = "a"
max_seq_len = 512
on_probe_failure = "void"
[[engines]]
name = "a"
kind = "pacing"
options = { ttft_ms = 5, interval_ms = 1 }
[[cells]]
scenario = "single"
workload = "perf-short"
requests = 2
max_tokens = 4
"""


def tracked() -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("needs a git checkout: it names the files that belong to the project")
    return [name for name in listed.stdout.splitlines() if (ROOT / name).is_file() and not name.startswith("docs/img")]


def build(folder: Path, kind: str, out: Path) -> Path:
    code = f"import setuptools.build_meta as b; b.build_{kind}({str(out)!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    (made,) = out.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return made


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the sdist: what the sdist lacks, the wheel lacks too."""
    pytest.importorskip("setuptools", minversion="77")
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("out")
    for name in tracked():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, source / name)
    with tarfile.open(build(source, "sdist", out)) as sdist:
        sdist.extractall(out, filter="data")
    (unpacked,) = (path for path in out.iterdir() if path.is_dir())
    return build(unpacked, "wheel", out)


class Installed:
    """The command line of an environment that holds the wheel, typed in an empty folder."""

    def __init__(self, bin_folder: Path, folder: Path) -> None:
        self.bin, self.folder = bin_folder, folder
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self.env = {**kept, "XDG_STATE_HOME": str(folder / ".state"), "PATH": f"{bin_folder}:{os.environ['PATH']}"}

    def run(self, *command: object, codes: tuple[int, ...] = (0,)) -> str:
        done = subprocess.run(
            [*map(str, command)],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode in codes, done.stdout[-1500:] + done.stderr[-1500:]
        return done.stdout


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Its dependencies are the test environment's: a .pth adds that folder, but not the checkout behind it."""
    venv, folder = tmp_path_factory.mktemp("venv"), tmp_path_factory.mktemp("empty")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    python = venv / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*install, "--disable-pip-version-check", str(wheel)], check=True, timeout=120)
    (site,) = venv.glob("lib/python*/site-packages")
    (site / "zz-dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return Installed(venv / "bin", folder)


def test_the_wheel_holds_every_file_of_the_product(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    product = {name for name in tracked() if name.split("/")[0] in PACKAGES and Path(name).suffix in DATA}
    assert not product - inside
    assert {"load/web/static/live.html", "profiles/demo.toml", "driver/ship/run.sh"} <= inside


def test_the_command_is_there_and_knows_its_scenarios_and_profiles(installed: Installed) -> None:
    assert "Usage: enginebench" in installed.run("enginebench", "--help")
    assert "--steps" not in installed.run("enginebench", "options", "single")
    site = installed.bin.parent / "lib"
    assert installed.run("enginebench", "scenario-path", "single").startswith(str(site))
    assert "llama-4slots" in installed.run("enginebench", "run", "demo", "--dry-run")


def test_a_run_is_measured_judged_and_reported_again(installed: Installed) -> None:
    (installed.folder / "p.toml").write_text(PROFILE)
    # Fair, or on a crowded machine void: this is about the wheel.
    installed.run("enginebench", "run", "p.toml", "--run-id", "r", codes=(0, 3))
    assert "report: bench-out/r/" in installed.run("enginebench", "report", "r", codes=(0, 3))
    (page,) = (installed.folder / "bench-out/r").glob("comparison-*.html")
    assert "<style>" in page.read_text()


def test_plain_locust_and_explore_load_a_server(installed: Installed, tmp_path: Path) -> None:
    engine = create(EngineConfig("pace", "pacing", options={"ttft_ms": 5, "interval_ms": 1}))
    with running(engine, tmp_path / "server.log", ready_timeout_s=30):
        path = installed.run("enginebench", "scenario-path", "concurrent_4").strip()
        locust = [installed.bin / "python", "-m", "locust", "-f", path, "--headless", "--host", engine.base_url]
        installed.run(*locust, "--requests", 8, "--max-tokens", 4, "--capture-dir", "out")
        assert len((installed.folder / "out/requests.jsonl").read_text().splitlines()) == 8
        ui = subprocess.Popen(
            ["enginebench", "explore", engine.base_url],
            cwd=installed.folder,
            env=installed.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert ui.stdout
            address = re.match(r"http://[\d.:]+", ui.stdout.readline())
            assert address and requests.get(f"{address[0]}/?tab=streaming", timeout=10).ok
            assert requests.get(f"{address[0]}/enginebench/static/tab.js", timeout=10).ok
        finally:
            ui.send_signal(signal.SIGTERM)
            ui.communicate(timeout=60)
    assert ui.returncode == 143
