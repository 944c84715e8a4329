"""Gets a new password from the user: from a file, from standard input, or by a question on the terminal. A password is
never an argument of a command, because other programs can see arguments."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from cluster.cli.failure import CommandError

new_password_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--new-password-file",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="File with the new password on its first line; - reads standard input.  [default: ask]",
)


def new_password(path: Path | None, user: str) -> str:
    """Return the new password of a user. Raises CommandError if there is none."""
    if path is None:
        if not sys.stdin.isatty():
            raise CommandError("the new password is missing: give --new-password-file FILE, or - for standard input")
        answer: str = click.prompt(f"New password of {user}", hide_input=True, confirmation_prompt=True, err=True)
        return answer
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise CommandError(f"the new password cannot be read from {path}: {reason}") from error
    password = text.split("\n", 1)[0].rstrip("\r")
    if not password:
        raise CommandError(f"{path} has no password on its first line")
    return password
