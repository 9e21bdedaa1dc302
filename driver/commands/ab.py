"""`ab A B ...`: compares two or more servers from one command line, without a profile."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from driver.ab import profile_values, to_toml
from driver.commands.run import execute, plan_text
from driver.commit_builds import TREE, built
from driver.errors import BenchError, ExitCode, writing
from driver.options import shared
from driver.options.commits import server_and_build
from driver.options.load import asked, load_options
from driver.options.output import Output, output_options
from driver.profile.read import Profile, parse_profile
from driver.run.plan import DEFAULT_OUT
from driver.run.progress import Display
from driver.run.reproduce import program
from records import write_text
from records.redaction import shown_argv, shown_url


@click.command(name="ab", short_help="Compare two or more servers: command lines, URLs or PROFILE:ENGINE.")
@click.argument("engines", nargs=-1, metavar="A B ...")
@load_options
@click.option("--name", "names", multiple=True, help="A name for each engine, in order.")
@click.option("--ref", "refs", multiple=True, help="Compare commits of --source: A and B are one command with {tree}.")
@click.option(
    "--source", type=click.Path(path_type=Path, file_okay=False), default=Path(), help="The git tree of --ref."
)
@click.option("--build", "build_command", help="Builds a commit of --ref, in its folder; run once per commit.")
@click.option("--save", type=click.Path(path_type=Path, dir_okay=False), help="Write the profile there, for `run`.")
@shared.dry_run
@shared.keep_raw
@shared.ca
@shared.run_id
@shared.out
@output_options
def command(
    engines: tuple[str, ...],
    names: tuple[str, ...],
    refs: tuple[str, ...],
    source: Path,
    build_command: str | None,
    save: Path | None,
    dry_run: bool,
    keep_raw: bool,
    run_id: str | None,
    out: Path,
    output: Output,
    **load: Any,
) -> int:
    """Compare servers A, B, ... under the same load; A is the baseline.

    Each is a command line in quotes, with {port} in place of the port number (optionally {host}, {model}, {slots},
    {max_seq_len}, {threads}); or the URL of a running server; or PROFILE:ENGINE.

    With --ref, commits of a git tree are compared: give one command with {tree}, the folder of the built commit.

    \b
    enginebench ab "llama-server -m M.gguf --port {port} --parallel 4 -c 8192" \\
                   "llama-server -m M.gguf --port {port} --parallel 1 -c 2048" --time 3m

    Exit code 0 done, 1 requests failed, 2 usage, 3 void, 4 engine or host failure.
    """  # noqa: D301 - click reads \b
    sides = engines
    if refs:
        served, build = server_and_build(engines[0] if engines else None, build_command, load["engine"])
        sides, names = _commits(engines or (served,), names, refs, source, build)
    values = profile_values(asked(sides, names, load))
    profile = parse_profile(values, "ab")
    if save is not None:
        with writing(save):
            write_text(save, to_toml(values))
        click.echo(f"profile: {save}; measure it again with: enginebench run {shlex.quote(str(save))}", err=True)
    if dry_run:
        click.echo(plan_text(profile, out))
        return 0
    made_by = as_typed(profile, engines, out, ["ab", *engines])
    return execute(profile, None, out, run_id, output=output, keep_raw=keep_raw, made_by=made_by)


def _commits(
    engines: tuple[str, ...], names: tuple[str, ...], refs: tuple[str, ...], source: Path, build: str | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The command of each commit, and its name."""
    if len(refs) < 2 or len(engines) != 1 or TREE not in engines[0]:
        raise BenchError(
            "--ref: give two or more, and one command with {tree}, the folder of the built commit", ExitCode.USAGE
        )
    say = Display(quiet=False).say
    trees = [built(source, ref, build, say) for ref in refs]
    return tuple(tree.fill(engines[0]) for tree in trees), names or tuple(tree.name for tree in trees)


def as_typed(profile: Profile, engines: tuple[str, ...], out: Path, otherwise: list[str]) -> str:
    """The command as typed, for the hint that continues the run: without secrets, and without `--run-id`.

    `otherwise` are its words where another program called it.
    """
    shown = {
        text: shown_url(text) if section.url else shlex.join(shown_argv(shlex.split(text)))
        for text, section in zip(engines, profile.engines, strict=False)
    }
    typed = sys.argv[1:] if sys.argv[1:2] == otherwise[:1] else otherwise
    hidden = shown_argv("engine" if word in shown else word for word in typed)
    words = [shown.get(word, safe) for word, safe in zip(typed, hidden, strict=True)]
    words = [word for word in words if not word.startswith("--run-id=")]
    if "--run-id" in words:
        place = words.index("--run-id")
        del words[place : place + 2]
    named = any(word == "--out" or word.startswith("--out=") for word in words)
    words += [] if out == DEFAULT_OUT or named else ["--out", str(out)]
    return shlex.join([program(), *words])
