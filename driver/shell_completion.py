"""Arguments with shell completion: included profiles, runs under bench-out/, and files."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from driver.run.plan import DEFAULT_OUT


class ProfileArgument(click.Path):
    """A TOML file, or the name of one in profiles/."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from driver.profile.read import PROFILES

        return _named(sorted(path.stem for path in PROFILES.glob("*.toml")), incomplete)


class RunArgument(click.Path):
    """The folder of a run, or its name under bench-out/."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return _named(sorted(path.parent.name for path in DEFAULT_OUT.glob("*/run.json")), incomplete)


def _named(names: list[str], incomplete: str) -> list[CompletionItem]:
    # Must come first: in bash it clears the list, and completes files if nothing is added.
    files = CompletionItem(incomplete, type="file")
    return [files, *(CompletionItem(name) for name in names if name.startswith(incomplete))]
