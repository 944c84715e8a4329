"""Arguments and options that say where backups are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from ledger.validation.sources.backup_access import KEY_FILE_VARIABLE

Command = TypeVar("Command", bound=Callable[..., Any])

target_argument: Callable[[Command], Command] = click.argument("target", metavar="TARGET")

key_file_option: Callable[[Command], Command] = click.option(
    "--key-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    envvar=KEY_FILE_VARIABLE,
    help="File with the key of the backups in TARGET, from `ledgermq backup new-key`. `backup create` encrypts with "
    f"this key, and the other commands decrypt.  [default: ${KEY_FILE_VARIABLE}, or not encrypted]",
)
