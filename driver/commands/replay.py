"""`replay RUN ENGINE...`: the traffic of a run, or of a trace, against other engines."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from driver.ab import Asked, to_toml
from driver.commands.ab import as_typed
from driver.commands.run import execute, plan_text
from driver.errors import writing
from driver.options import shared
from driver.options.output import Output, output_options
from driver.profile.read import parse_profile
from driver.replay import MOST_USERS, profile_values
from records import write_text


@click.command(name="replay", short_help="Send a run's requests, or a trace's, at the same times to other engines.")
@click.argument("source", metavar="RUN|TRACE", type=click.Path(path_type=Path))
@click.argument("engines", nargs=-1, required=True, metavar="ENGINE...")
@click.option("--cell", help="Which cell of RUN, where it has several.")
@click.option("--engine", help="Whose records of RUN. Default: the first by name.")
@click.option("--speed", type=click.FloatRange(0, min_open=True), default=1.0, help="2.0 halves all times.")
@click.option("--first", type=click.IntRange(1), help="Only the first so many requests.")
@click.option("--cap-tokens", type=click.IntRange(1), help="Cut longer prompts and answers to so many tokens.")
@click.option(
    "--users", type=click.IntRange(1), default=MOST_USERS, show_default=True, help="Requests in flight, at most."
)
@click.option("--free-length", is_flag=True, help="Let answers end where the model ends.")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="Starts of each engine, in turn.")
@click.option("--slots", multiple=True, type=click.IntRange(1), help="Slots of the servers; once, or for each.")
@click.option("--max-seq-len", type=click.IntRange(1), help="Tokens per slot. Default: what the requests need.")
@click.option("--name", "names", multiple=True, help="A name for each engine, in order.")
@click.option("--save", type=click.Path(path_type=Path, dir_okay=False), help="Write the profile there, for `run`.")
@shared.endpoint
@shared.header
@shared.dry_run
@shared.keep_raw
@shared.ca
@shared.run_id
@shared.out
@output_options
def command(
    source: Path,
    engines: tuple[str, ...],
    cell: str | None,
    engine: str | None,
    speed: float,
    first: int | None,
    cap_tokens: int | None,
    users: int,
    free_length: bool,
    rounds: int,
    slots: tuple[int, ...],
    max_seq_len: int | None,
    names: tuple[str, ...],
    save: Path | None,
    endpoint: str,
    header: tuple[str, ...],
    dry_run: bool,
    keep_raw: bool,
    run_id: str | None,
    out: Path,
    output: Output,
) -> int:
    """Replay RUN (a run's folder) or TRACE (a file; docs/profiles.md) against each ENGINE, the first the baseline.

    Requests come at the times, with the prompts and the lengths of answers of the record. An engine is a command line
    in quotes with {port}, the URL of a running server, or PROFILE:ENGINE, as for `ab`.

    Exit code 0 done, 1 requests failed, 2 usage, 3 void, 4 engine or host failure.
    """
    run = out / source if not source.exists() and (out / source).is_dir() else source
    asked = Asked(
        sides=engines,
        names=names,
        rounds=rounds,
        slots=slots,
        max_seq_len=max_seq_len,
        fixed_length=not free_length,
        endpoint=endpoint,
        headers=shared.headers_of(header),
    )
    values = profile_values(asked, run, cell=cell, engine=engine, speed=speed, first=first, cap=cap_tokens, users=users)
    profile = parse_profile(values, "replay")
    if save is not None:
        with writing(save):
            write_text(save, to_toml(values))
        click.echo(f"profile: {save}; measure it again with: enginebench run {shlex.quote(str(save))}", err=True)
    if dry_run:
        click.echo(plan_text(profile, out))
        return 0
    made_by = as_typed(profile, engines, out, ["replay", str(source), *engines])
    return execute(profile, None, out, run_id, output=output, keep_raw=keep_raw, made_by=made_by)
