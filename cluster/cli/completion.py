"""The command `ledgermq completion` prints the script that completes commands, options and names in a shell."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem, get_completion_class

SHELLS = ("bash", "zsh", "fish")
# The shell sets this variable when it asks for completions; click answers in `ledgermq.main`.
_VARIABLE = "_LEDGERMQ_COMPLETE"


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
    script = made(context.find_root().command, {}, "ledgermq", _VARIABLE)
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
