#!/usr/bin/env python3
"""enginebench's command line. Each command is one file in driver/commands/; this only gathers them.

Exit codes: 0 done; 1 a regression, or requests failed; 2 usage or profile error; 3 void; 4 engine, host or run
failure; 130/143 signals. It never imports locust, which would monkey-patch the driver.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit with its documented code."""
    try:
        # Here, since it takes a second in which Ctrl-C must not show a traceback.
        from driver.cli import cli

        sys.exit(cli())
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
