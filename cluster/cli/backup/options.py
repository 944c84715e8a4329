"""Arguments and options that say where backups are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

target_argument: Callable[[Command], Command] = click.argument("target", metavar="TARGET")
