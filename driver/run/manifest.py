"""Writes the manifest of a run (`run.json`): profile, host and versions, so that the run can be repeated."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from driver.errors import BenchError, ExitCode
from driver.profile.read import PROFILES, Profile, ProfileError, parse_profile
from driver.profile.redacted import shown_profile
from driver.run.plan import engine_rounds
from engines import gpu_inventory
from records import SCHEMA_VERSION, JsonObject, RunFolder, read_json, write_json
from records.utc import utc_now
from scoring.comparability import host_changes, host_facts

ROOT = Path(__file__).resolve().parents[2]


def profile_sha256(profile: Profile) -> str:
    """The identity of a profile, without secrets: a changed API key does not change it."""
    shown = Profile.model_validate(shown_profile(profile.model_dump(mode="json")))
    return hashlib.sha256(shown.model_dump_json().encode()).hexdigest()


def open_manifest(
    folder: RunFolder,
    profile: Profile,
    profile_path: Path | None,
    workloads: dict[str, Any],
    commands: Sequence[str] = (),
) -> JsonObject:
    """Write the manifest of a new run, or read the manifest of a run that is resumed.

    `commands` are the command lines that repeat the run and its comparison.

    The profile of a run without any measurement may change, because the probe may have rejected it. `time` may always
    change: it does not affect what is measured.

    Raises:
        BenchError: the run was started with a different profile (exit code 2), or its manifest cannot be read.
    """
    if folder.manifest.exists():
        manifest = _read_manifest(folder)
        asked = {"profile": profile.model_dump(mode="json"), "profile_sha256": profile_sha256(profile)}
        if has_records(folder):
            _require_same(folder, manifest, profile, workloads)
            manifest |= asked if profile.time != manifest["profile"].get("time") else {}
        else:
            manifest |= asked | {"order": _order(profile), "workloads": workloads, "host": describe_host()}
        # Earlier versions stored the secrets.
        manifest["profile"] = shown_profile(manifest["profile"])
        manifest["resumed_utc"] = [*manifest.get("resumed_utc", []), utc_now()]
    else:
        manifest = {
            "schema": SCHEMA_VERSION,
            "run_id": folder.run_id,
            "created_utc": utc_now(),
            "profile": shown_profile(profile.model_dump(mode="json")),
            "profile_path": _shown_path(profile_path) if profile_path else None,
            "profile_sha256": profile_sha256(profile),
            "host": describe_host(),
            "versions": describe_versions(),
            "git": describe_git(),
            "seeds": {"workloads": profile.seed, "load": profile.seed},
            "order": _order(profile),
            "workloads": workloads,
            "commands": list(commands),
        }
    write_json(folder.manifest, manifest)
    return manifest


def _order(profile: Profile) -> list[list[str | int]]:
    """[engine, round] of each engine start, in the drawn order."""
    return [[round_.engine.name, round_.number] for round_ in engine_rounds(profile)]


def has_records(folder: RunFolder) -> bool:
    """Whether any request of the run was recorded."""
    return any(path.stat().st_size for path in folder.path.glob("*/r*/*/requests*.jsonl"))


def _read_manifest(folder: RunFolder) -> JsonObject:
    try:
        manifest = read_json(folder.manifest)
    except ValueError as error:
        raise BenchError(f"{error}; the run cannot be finished: start a new run") from None
    if not isinstance(manifest.get("profile"), dict):
        raise BenchError(f"{folder.manifest}: holds no profile; the run cannot be finished: start a new run")
    return manifest


def _require_same(folder: RunFolder, manifest: JsonObject, profile: Profile, workloads: dict[str, Any]) -> None:
    """Reject a host, profile or workloads that differ from those with which the run was started."""
    here = {"host": describe_host()}
    if manifest.get("host") and (changes := host_changes(host_facts(manifest), host_facts(here))):
        raise BenchError(
            f"{folder.path}: was started on another host ({'; '.join(changes)}); start a new run, and compare the two",
            ExitCode.USAGE,
        )
    before, now = (_asked(each) for each in (_as_of_today(manifest["profile"]), profile.model_dump(mode="json")))
    if changed := first_difference(before, now):
        raise BenchError(
            f"{folder.path}: was started with another profile ({changed}); finish it with that profile,"
            " or use another --run-id",
            ExitCode.USAGE,
        )
    if changed := first_difference(_hashes(manifest.get("workloads") or {}), _hashes(workloads)):
        raise BenchError(
            f"{folder.path}: the workloads have changed since the run was started ({changed}); use another --run-id",
            ExitCode.USAGE,
        )


def first_difference(before: Any, now: Any, place: str = "") -> str | None:
    """The first difference of two JSON values, as text; None if they are equal. A missing key counts as null."""
    if isinstance(before, dict) and isinstance(now, dict):
        keys = dict.fromkeys([*before, *now])
        pairs = [(f"{place}.{key}".lstrip("."), before.get(key), now.get(key)) for key in keys]
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        pairs = [(f"{place}[{number}]", *pair) for number, pair in enumerate(zip(before, now, strict=True))]
    else:
        return None if before == now else f"{place}: was {_short(before)}, is {_short(now)}"
    return next((change for name, a, b in pairs if (change := first_difference(a, b, name))), None)


def _asked(profile: JsonObject) -> JsonObject:
    """What a profile asks for. Its secrets, the rules that judge nights and the time that it may take can change."""
    return {name: value for name, value in shown_profile(profile).items() if name not in ("gate", "time")}


def _as_of_today(profile: JsonObject) -> JsonObject:
    """A profile stored by an earlier version, with today's defaults for the keys that it did not know."""
    try:
        return parse_profile(profile, "run.json").model_dump(mode="json")
    except ProfileError:
        return profile


def _hashes(workloads: JsonObject) -> JsonObject:
    return {name: described.get("sha256") for name, described in workloads.items()}


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def describe_host() -> JsonObject:
    """Facts of the host on which figures depend. Host names are left out, because reports are published."""
    frequency = psutil.cpu_freq() if hasattr(psutil, "cpu_freq") else None
    return {
        "os": platform.platform(),
        "kernel": platform.release(),
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "cpu_mhz_max": frequency.max or None if frequency else None,
        "memory_bytes": psutil.virtual_memory().total,
        "gpu": gpu_inventory(),
    }


def describe_versions() -> dict[str, str]:
    """The versions of Python and of the packages that affect figures."""
    versions = {"python": platform.python_version()}
    for name in ("enginebench", "locust", "gevent", "pandas", "scipy", "numpy", "orjson", "datasets"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def describe_git() -> JsonObject | None:
    """Commit of this checkout and whether it has local changes; None for an installed package."""
    if not (ROOT / ".git").exists():
        # A repository around the environment in which it is installed is not this program's.
        return None
    try:
        commit = _git("rev-parse", "HEAD")
        dirty = bool(_git("status", "--porcelain", "--untracked-files=no", "--ignore-submodules"))
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": commit, "dirty": dirty}


def _git(*arguments: str) -> str:
    git = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=20, check=True)
    return git.stdout.strip()


def _shown_path(path: Path) -> str:
    """A profile for `enginebench run`: the bare name of an included profile, else the file's name."""
    return path.stem if path.resolve().parent == PROFILES else path.name


def _cpu_model() -> str | None:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or None
