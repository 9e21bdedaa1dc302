#!/usr/bin/env python3
"""Starts the command line: `./run_bench.py ARGUMENTS` is `enginebench ARGUMENTS`. The commands are in driver/commands/.

The exit codes are those of `driver.errors.ExitCode`. This process never imports locust, which would monkey-patch it.
"""

from __future__ import annotations

import sys

FAILURE = 4


def main() -> None:
    """Run the command line and exit with its documented code."""
    if sys.version_info < (3, 11):  # noqa: UP036 - an older Python starts this file, too
        _fail("Python {}.{} runs it; it needs 3.11 or newer".format(*sys.version_info))
    try:
        # Imported here because it takes a second, in which Ctrl-C must not show a traceback.
        from driver.cli import cli

        sys.exit(cli())
    except KeyboardInterrupt:
        sys.exit(130)
    except ModuleNotFoundError as error:
        _fail(f"the package {error.name} is not installed for {sys.executable}")


def _fail(problem: str) -> None:
    hint = "run `make .venv/.test` in the checkout, then .venv/bin/enginebench; or install it with pipx install ."
    sys.stderr.write(f"enginebench: {problem}; {hint}\n")
    sys.exit(FAILURE)


if __name__ == "__main__":
    main()
