"""The command `ledgermq completion` prints the script that completes commands, options and names in a shell."""

from __future__ import annotations

import os
from typing import ClassVar

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

from cluster.cli import COMPLETE_VARIABLE

SHELLS = ("bash", "zsh", "fish")


@add_completion_class
class LineOfBash(BashComplete):
    """Reads the line before the cursor. The words that bash makes of it are split at each ":" and "=", so an address
    HOST:PORT would be three words."""

    source_template: ClassVar[str] = BashComplete.source_template.replace(
        'COMP_WORDS="${COMP_WORDS[*]}"', 'COMP_WORDS="${COMP_LINE:0:COMP_POINT}"'
    )

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ["COMP_WORDS"]
        words = split_arg_string(line)
        if not words or line[-1:].isspace():
            words.append("")
        return words[1:-1], words[-1]


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script by which SHELL completes commands, options, profiles, topics and consumer groups.

    Names of topics and groups come from the cluster of the command, if it answers within a second. Load the script in
    each new shell:

    \b
        bash   echo 'eval "$(ledgermq completion bash)"' >> ~/.bashrc
        zsh    echo 'eval "$(ledgermq completion zsh)"' >> ~/.zshrc
        fish   ledgermq completion fish > ~/.config/fish/completions/ledgermq.fish
    """
    made = get_completion_class(shell)
    assert made is not None
    # `source_template` alone: `source()` of bash would start bash to ask for its version.
    script = made(context.find_root().command, {}, "ledgermq", COMPLETE_VARIABLE)
    click.echo(made.source_template % script.source_vars())


def profile_names(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the names of profiles that begin with `incomplete`."""
    from ledger.client.connection.security import profile_file, read_profiles
    from ledger.errors import InvalidArgumentError

    try:
        names = read_profiles(profile_file()).get("profiles", {})
    except InvalidArgumentError:
        return []
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete) and name.isprintable()]
