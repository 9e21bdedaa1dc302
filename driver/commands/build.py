"""`build`: builds llama.cpp from its source."""

from __future__ import annotations

from pathlib import Path

import click

from driver.errors import BenchError
from driver.run.progress import Display, step_progress
from engines import EngineError
from engines.build.llama_server import BuildRequest, build


@click.command(name="build", short_help="Build llama.cpp from its pinned source, for this card or CPU.")
@click.option("--cpu", is_flag=True, help="Build without CUDA even if there is a GPU.")
@click.option(
    "--cuda-arch", multiple=True, help="CUDA architecture, such as 120 (RTX 5090) or 90 (H200); several allowed."
)
@click.option(
    "--source", type=click.Path(path_type=Path), help="A llama.cpp tree or .tar.gz instead of the pinned one."
)
@click.option("--jobs", "-j", type=click.IntRange(min=1), help="Compiler jobs at once; default: all cores.")
def command(cpu: bool, cuda_arch: tuple[str, ...], source: Path | None, jobs: int | None) -> int:
    """Build llama-server and llama-bench (pinned b9371) into the cache, for this GPU or CPU, unless they are there.

    A profile uses the newest build with `binary = "build"`.
    """
    if cpu and cuda_arch:
        raise click.UsageError("--cpu and --cuda-arch exclude each other")
    display = Display()
    request = BuildRequest(cuda=False if cpu else None, cuda_arch=cuda_arch, source=source, jobs=jobs)
    try:
        with step_progress(display, "compiling") as on_progress:
            result = build(request, say=display.say, on_progress=on_progress)
    except EngineError as error:
        raise BenchError(str(error)) from None
    click.echo(f"build: {result.provenance['source']['build']}, {result.provenance['version']}")
    click.echo(f"took {result.provenance['seconds']:.0f} s; {result.server}")
    return 0
