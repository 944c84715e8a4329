"""Arguments and options that say where backups are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

target_argument: Callable[[Command], Command] = click.argument("target", metavar="TARGET")

key_file_option: Callable[[Command], Command] = click.option(
    "--key-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Encrypt the backups with the key in this file (`ledgermq backup new-key`).  [default: not encrypted]",
)
