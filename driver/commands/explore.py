"""`explore TARGET`: opens Locust's web UI with live streaming figures for one engine."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import requests

from driver.errors import BenchError, ExitCode, writing
from driver.options import shared
from driver.profile.cell_options import scenarios
from driver.profile.fields import complete_url, looks_like_url
from driver.profile.read import EngineSection, Profile, load_profile
from driver.run.engine_setup import make_engine, ready_timeout_s, request_extras
from driver.run.launcher import Locust, last_line
from driver.run.progress import Display
from engines import EngineConfig, EngineError, create, running
from engines.process.port import free_port, require_free_port
from records.endpoint import CHAT
from workloads import TaskError, load_prompts

WEB_HOST = "127.0.0.1"
READY_S = 60.0


@click.command(name="explore", short_help="Locust's web UI with live figures, in front of an engine.")
@click.argument("target")
@click.option("--scenario", type=click.Choice(scenarios()), default="closed_loop", show_default=True)
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the web UI; default: any free port.")
@click.option("--prompts", default="perf-short", show_default=True, help="Workload, or FILE.jsonl.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("bench-out/explore"),
    show_default=True,
    help="Folder for the records of the last test, and the engine's log.",
)
@shared.endpoint
@shared.header
@shared.ca
def command(
    target: str, scenario: str, port: int | None, prompts: str, out: Path, endpoint: str, header: tuple[str, ...]
) -> int:
    """Load TARGET from Locust's web UI on loopback, with live streaming figures in the tab "Streaming".

    TARGET is the URL of a running engine, or PROFILE:ENGINE (such as demo:llama-4slots). PROFILE:ENGINE is started, and
    stopped together with the UI on Ctrl-C.
    """
    headers = shared.headers_of(header)
    try:
        load_prompts(prompts)
    except TaskError as error:
        raise BenchError(f"--prompts {error}", ExitCode.USAGE) from None
    named = None if looks_like_url(target) else _section(target)
    if named is None:
        try:
            target = complete_url(target)
        except ValueError as error:
            raise BenchError(str(error), ExitCode.USAGE) from None
    try:
        # Checked before the engine is started, which may take minutes. Locust's own message is hidden above its table.
        require_free_port(WEB_HOST, port, instead="give another --port")
    except EngineError as error:
        raise BenchError(str(error)) from None
    out = out.absolute()
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    options: dict[str, Any] = {"prompts": Path(prompts).absolute() if Path(prompts).is_file() else prompts}
    if named is None:
        if not create(EngineConfig("target", "remote", url=target)).is_ready():
            click.echo(f"no server answers at {target} now: start it before the test", err=True)
        return _serve(scenario, port, out, options | {"host": target, "endpoint": endpoint}, {}, headers)
    profile, section = named
    endpoint = profile.endpoint if endpoint == CHAT else endpoint
    with _engine(profile, section, out) as engine:
        extras = request_extras(engine, section, profile, fixed_length=False, endpoint=endpoint)
        options |= {"host": engine.base_url, "engine": section.name, "model": engine.model_name, "endpoint": endpoint}
        options |= {"max_tokens_field": section.max_tokens_field}
        return _serve(scenario, port, out, options, extras, {**section.headers, **headers})


def _section(target: str) -> tuple[Profile, EngineSection]:
    """The profile and the engine section of PROFILE:ENGINE.

    Raises:
        BenchError: there is no such profile or engine.
    """
    name, colon, wanted = target.rpartition(":")
    if not colon:
        raise BenchError(f"{target!r}: a URL or PROFILE:ENGINE was expected, such as demo:llama-4slots", ExitCode.USAGE)
    profile = load_profile(name)
    for section in profile.engines:
        if section.name == wanted:
            return profile, section
    known = ", ".join(section.name for section in profile.engines)
    raise BenchError(f"{name}: no engine {wanted!r}; there are {known}", ExitCode.USAGE)


@contextlib.contextmanager
def _engine(profile: Profile, section: EngineSection, out: Path) -> Iterator[Any]:
    display = Display(quiet=False)
    display.say(f"starting {section.name} ({section.kind})")
    engine = make_engine(section, profile, display)
    try:
        # Stops the engine on every exit, including an interrupt.
        with running(engine, out / "server.log", ready_timeout_s=ready_timeout_s(engine, section)):
            yield engine
    except EngineError as error:
        raise BenchError(str(error)) from None


def _serve(
    scenario: str,
    port: int | None,
    out: Path,
    options: dict[str, Any],
    request_extras: dict[str, Any],
    headers: Mapping[str, str] | None = None,
) -> int:
    """Run Locust with its web UI until it ends or this command is stopped."""
    port = port or free_port()
    web = {"web_host": WEB_HOST, "web_port": port, "capture_dir": out}
    locust = Locust(scenario, options | web, request_extras, out / "load.log", headers=headers or {})
    with locust.running() as process:
        address = f"http://{WEB_HOST}:{port}"
        _wait_until_up(process, address, locust.log)
        click.echo(f"{address}/?tab=streaming  (loads {options['host']}; records in {out}; Ctrl-C stops it)")
        sys.stdout.flush()
        code = process.wait()
    raise BenchError(f"the web UI ended by itself (exit code {code}); its log ends: {last_line(locust.log)}")


def _wait_until_up(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        if process.poll() is not None:
            raise BenchError(f"the web UI did not start: {last_line(log)}", ExitCode.USAGE)
        with contextlib.suppress(requests.RequestException):
            # This route exists only in our web UI, not in another server on that port.
            if requests.get(f"{address}/enginebench/live.json", timeout=2).ok:
                return
        time.sleep(0.1)
    raise BenchError(f"the web UI did not answer on {address} within {READY_S:.0f} s; see {log}")
