"""`fetch [WORKLOAD...]`: downloads the public problem sets once, into local files."""

from __future__ import annotations

from pathlib import Path

import click

from driver.errors import BenchError, ExitCode

DEFAULT = ("gsm8k", "aime2025")
"""The problem sets to fetch by default."""


@click.command(name="fetch", short_help="Get GSM8K, AIME 2025 and other sets, pinned.")
@click.argument("workloads", nargs=-1, metavar="[WORKLOAD]...")
@click.option(
    "--from", "source_file", type=click.Path(path_type=Path), help="Import a local copy (JSONL, CSV or Parquet)."
)
@click.option("--data-dir", type=click.Path(path_type=Path), help="Default: ENGINEBENCH_DATA, else the user's cache.")
@click.option("--force", is_flag=True, help="Fetch again even if the files are there.")
def command(workloads: tuple[str, ...], source_file: Path | None, data_dir: Path | None, force: bool) -> int:
    """Fetch gsm8k and aime2025, or the named WORKLOADs: also mmlu_pro and gpqa_diamond (which needs a hub token).

    The data sets are downloaded at their pinned revisions and checked, and their hashes are stored.

    Without a network, place the files or import them with --from; later stages need nothing else.
    """
    from records.wording import count
    from workloads import DATA_SETS, TaskError
    from workloads.fetch import fetch

    names = workloads or DEFAULT
    if unknown := [name for name in names if name not in DATA_SETS]:
        raise BenchError(f"{unknown[0]}: nothing to fetch; there are {', '.join(DATA_SETS)}", ExitCode.USAGE)
    if source_file is not None and len(names) != 1:
        raise BenchError("--from imports one workload: name it, as in `fetch gsm8k --from FILE`", ExitCode.USAGE)
    failed = []
    for name in names:
        try:
            result = fetch(name, data_dir, source_file=source_file, force=force)
        except TaskError as error:
            failed.append(str(error))
            continue
        revision = f" at {result.revision[:12]}" if result.revision else ""
        click.echo(
            f"{name}: {count(result.rows, 'problem')} from {result.source}{revision}"
            f"{'' if result.fetched else ', there already'}: {result.path} (sha256 {result.sha256[:12]})"
        )
    if failed:
        raise BenchError("\n".join(failed), ExitCode.FAILURE)
    return int(ExitCode.DONE)
