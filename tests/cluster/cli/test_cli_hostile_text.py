"""Names and errors of others cannot change what the user's terminal shows (messages: test_message_writer.py)."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

import cluster.cli
from cluster.cli.messages.message_writer import shown_on
from cluster.cli.output import print_table, printable, say
from ledger.errors import InvalidArgumentError

# Red text, the title of the window, the C1 form of an escape sequence, and a line that looks like another one.
HOSTILE = "x\x1b[31m\x1b]0;title\x07\x9b31m\rforged"
HARMLESS = r"x\x1b[31m\x1b]0;title\x07\x9b31m\rforged"


def test_control_characters_become_escapes() -> None:
    assert printable(HOSTILE) == HARMLESS
    assert printable("two\nlines, é and 日本") == "two\nlines, é and 日本"


def test_tables_and_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["CLIENT"], [[f"{HOSTILE}\nforged row"]])
    say(HOSTILE)
    printed = capsys.readouterr()
    assert printed.out == f"CLIENT\n{HARMLESS}\\nforged row\n"
    assert printed.err == f"{HARMLESS}\n"


def test_errors(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(*_: object, **__: object) -> None:
        raise InvalidArgumentError(HOSTILE)

    monkeypatch.setattr(cluster.cli, "ledgermq", SimpleNamespace(main=fails))
    with pytest.raises(SystemExit) as ended:
        cluster.cli.main(["topic", "list"])
    assert ended.value.code == 1
    assert capsys.readouterr().err == f"Error: {HARMLESS}\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_the_value_of_one_message(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    assert shown_on(sys.stdout)(HOSTILE.encode()) == (HARMLESS if terminal else HOSTILE).encode()
