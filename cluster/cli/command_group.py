"""A group of commands. Its help has the first sentence of each command, which click would cut after one line."""

from __future__ import annotations

import click

# More characters than any first sentence has.
_WHOLE = 10_000


class CommandGroup(click.Group):
    """A click group for subcommands of `ledgermq`."""

    group_class = type  # groups in this group are of this class too

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        found = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        rows = [
            (name, command.get_short_help_str(_WHOLE))
            for name, command in found.items()
            if command is not None and not command.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
