"""`ab A B ...`: two or more servers compared from one line, without a profile."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from driver.ab import Asked, parse_answers, profile_values, to_toml
from driver.commands import _shared
from driver.commands.run import execute, plan_text
from driver.errors import BenchError, ExitCode, writing
from driver.profile.read import Profile, parse_profile
from driver.run.plan import DEFAULT_OUT
from driver.run.reproduce import program
from nightly.guard import parse_duration
from records import write_text
from records.redaction import shown_argv, shown_url


@click.command(name="ab", short_help="Compare two or more servers: command lines, URLs or PROFILE:ENGINE.")
@click.argument("engines", nargs=-1, required=True, metavar="A B ...")
@click.option("--users", default="1,4,8", show_default=True, help="Requests in flight, a cell for each number.")
@click.option("--prompts", default="perf-short", show_default=True, help="Workload, or FILE.jsonl.")
@click.option("--output-tokens", type=click.IntRange(2), help="Tokens of each answer. Default: 64; 32 in little time.")
@click.option("--free-length", is_flag=True, help="Let answers end where the model ends, at most at --output-tokens.")
@click.option("--answers", multiple=True, metavar="TASK[:N]", help="Grade answers too, such as arithmetic:24.")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="Starts of each engine, in turn.")
@click.option("--time", "time_limit", default="10m", show_default=True, help="About how long to measure: 90s, 3m, 1h.")
@click.option("--max-seq-len", type=click.IntRange(1), help="Tokens per slot. Default: what the prompts need.")
@click.option("--slots", multiple=True, type=click.IntRange(1), help="Slots that servers must have; once, or for each.")
@click.option("--name", "names", multiple=True, help="A name for each engine, in order.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="Environment of every command; may be repeated.")
@click.option("--model", help="What {model} in a command means: a path, or package:DIST/FILE.")
@click.option("--threads", type=click.IntRange(1), help="What {threads} in a command means.")
@click.option("--save", type=click.Path(path_type=Path, dir_okay=False), help="Write the profile there, for `run`.")
@click.option("--dry-run", is_flag=True, help="Print the plan and an estimate of the time, start nothing.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown for a pull request.")
@click.option("--open", "open_report", is_flag=True, help="Open the HTML report.")
@_shared.run_id
@_shared.out
@_shared.junit
@_shared.as_json("the comparison")
def command(
    engines: tuple[str, ...],
    users: str,
    prompts: str,
    output_tokens: int | None,
    free_length: bool,
    answers: tuple[str, ...],
    rounds: int,
    time_limit: str,
    max_seq_len: int | None,
    slots: tuple[int, ...],
    names: tuple[str, ...],
    env: tuple[str, ...],
    model: str | None,
    threads: int | None,
    save: Path | None,
    dry_run: bool,
    as_markdown: bool,
    open_report: bool,
    run_id: str | None,
    out: Path,
    junit: Path | None,
    as_json: bool,
) -> int:
    r"""Compare servers A, B, ... under the same load; A is the baseline.

    Each is a command line in quotes, with {port} where the port number goes (and {host}, {model}, {slots},
    {max_seq_len}, {threads} where wanted); or the URL of a running server; or PROFILE:ENGINE.

    \b
    enginebench ab "llama-server -m M.gguf --port {port} --parallel 4 -c 8192" \
                   "llama-server -m M.gguf --port {port} --parallel 1 -c 2048" --time 3m

    Exit code 0 done, 1 requests failed, 2 usage, 3 void, 4 engine or host failure.
    """
    if as_json and as_markdown:
        raise click.UsageError("--json and --markdown exclude each other")
    values = profile_values(
        Asked(
            sides=engines,
            users=_numbers(users),
            prompts=prompts,
            output_tokens=output_tokens,
            fixed_length=not free_length,
            answers=tuple(map(parse_answers, answers)),
            rounds=rounds,
            time_s=parse_duration(time_limit),
            max_seq_len=max_seq_len,
            slots=slots,
            names=names,
            env=dict(map(_assignment, env)),
            model=model,
            threads=threads,
        )
    )
    profile = parse_profile(values, "ab")
    if save is not None:
        with writing(save):
            write_text(save, to_toml(values))
        click.echo(f"profile: {save}; measure it again with: enginebench run {shlex.quote(str(save))}", err=True)
    if dry_run:
        click.echo(plan_text(profile, out))
        return 0
    form = "json" if as_json else "markdown" if as_markdown else "terminal"
    made_by = _as_typed(profile, engines, out)
    return execute(profile, None, out, run_id, form=form, junit=junit, made_by=made_by, open_report=open_report)


def _numbers(users: str) -> tuple[int, ...]:
    try:
        numbers = tuple(dict.fromkeys(int(number) for number in users.split(",")))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 1:
        raise BenchError(f"--users {users}: expected whole numbers above 0 with commas, such as 1,4,8", ExitCode.USAGE)
    return numbers


def _assignment(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise BenchError(f"--env {name}: expected NAME=VALUE", ExitCode.USAGE)
    return name, value


def _as_typed(profile: Profile, engines: tuple[str, ...], out: Path) -> str:
    """The command as typed, for the hint that goes on with it: without secrets, and without `--run-id`."""
    shown = {}
    for text, section in zip(engines, profile.engines, strict=True):
        if section.command:
            shown[text] = shlex.join(shown_argv(section.command))
        elif section.url:
            shown[text] = shown_url(text)
    typed = sys.argv[1:] if sys.argv[1:2] == ["ab"] else ["ab", *engines]
    words = [shown.get(word, word) for word in typed]
    if "--run-id" in words:
        place = words.index("--run-id")
        del words[place : place + 2]
    words += [] if out == DEFAULT_OUT or "--out" in words else ["--out", str(out)]
    return shlex.join([program(), *shown_argv(words)])
