"""The decisions about the transactions of a run: the load's own database, which all its client processes share.

Each decision is a symbolic link in a directory: its name is that of the transaction, and its target is the outcome. The
operating system makes a link at once or not at all, and only the first link of a name. So a transaction has one
outcome, whoever decides, and also if the process is killed meanwhile.
"""

from __future__ import annotations

from pathlib import Path

NAME = "decisions"
_COMMIT, _ROLL_BACK = "commit", "rollback"


class Decisions:
    """The decisions in `directory`, which is made if there is none."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self._directory = directory

    def decide(self, transaction: str, *, commit: bool) -> bool:
        """Record the decision if there is none yet. Return whether the transaction is to be committed."""
        link = self._directory / transaction
        try:
            link.symlink_to(_COMMIT if commit else _ROLL_BACK)
        except FileExistsError:
            return str(link.readlink()) == _COMMIT
        return commit

    def decided(self, transaction: str) -> bool | None:
        """Return whether the transaction is to be committed, or None if nobody has decided."""
        try:
            return str((self._directory / transaction).readlink()) == _COMMIT
        except FileNotFoundError:
            return None
