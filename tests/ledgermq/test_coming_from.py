"""Tests that docs/COMING_FROM.md names only what exists: methods, settings and commands."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import click
import pytest

import ledgermq
from cluster.cli import ledgermq as command_line

PAGE = (Path(__file__).resolve().parents[2] / "docs/COMING_FROM.md").read_text(encoding="utf-8")
CLIENTS = [
    getattr(ledgermq, name) for name in ledgermq.__all__ if re.fullmatch(r"(?:Async)?\w*(?:er|Admin|Transaction)", name)
]
# Names of Python, of the other products, and of the reader's own functions.
OTHERS = {"anext", "main", "timedelta"}


def ours() -> list[str]:
    """Return the code in the last column of each table of calls."""
    rows = re.findall(r"^\|.*\|$", PAGE[PAGE.index("## Calls: Kafka") : PAGE.index("## Command line")], re.MULTILINE)
    cells = [re.split(r"(?<!\\)\|", row)[-2] for row in rows]
    return [code for cell in cells for code in re.findall(r"`([^`]+)`", cell)]


def known() -> set[str]:
    found = set(dir(ledgermq)) | OTHERS
    for client in CLIENTS:
        found |= set(dir(client)) | set(inspect.signature(client).parameters)
        for _, method in inspect.getmembers(client, inspect.isfunction):
            found |= set(inspect.signature(method).parameters)
    return found


def test_calls_and_settings_exist() -> None:
    codes = [code for code in ours() if not code.startswith("ledgermq ")]
    names = {name for code in codes for name in re.findall(r"\b([A-Za-z_]+)(?=\(|=)", code)}
    names |= {code for code in codes if re.fullmatch(r"[a-z]+(?:_[a-z]+)+", code)}
    assert len(names) > 50
    assert names - known() == set()


@pytest.mark.parametrize("command", sorted(set(re.findall(r"`ledgermq ((?:[a-z-]+ ?)+)", PAGE))))
def test_commands_exist(command: str) -> None:
    found: click.Command | None = command_line
    context = click.Context(command_line)
    for word in command.split():
        if not isinstance(found, click.Group):
            break  # arguments of the command
        found = found.get_command(context, word)
        assert found is not None, command
