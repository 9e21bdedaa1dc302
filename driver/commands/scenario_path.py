"""`scenario-path NAME`: prints the path of a scenario's file, for plain `locust -f`."""

from __future__ import annotations

import click

from driver.profile.cell_options import LOCUSTFILES, scenarios


@click.command(name="scenario-path", short_help="Print the path of a scenario's file, for plain `locust -f`.")
@click.argument("scenario", type=click.Choice(scenarios()))
def command(scenario: str) -> int:
    """Print the path of SCENARIO's file, so that plain Locust can load it from any folder.

    Example: locust -f "$(enginebench scenario-path concurrent_4)" --headless --host http://127.0.0.1:8080
    """
    click.echo(LOCUSTFILES / f"{scenario}.py")
    return 0
