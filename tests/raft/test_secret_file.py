"""Who may read a file with a secret."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from raft.transport.secret_file import others_can_read


@pytest.mark.parametrize(
    ("owner", "user", "mode", "others"),
    [
        (10001, 10001, 0o600, False),
        (10001, 10001, 0o400, False),
        (10001, 10001, 0o640, True),  # its group is not only the process
        (10001, 10001, 0o604, True),
        (0, 10001, 0o440, False),  # a secret of an orchestrator
        (0, 10001, 0o640, False),
        (0, 10001, 0o660, True),  # the group may change it
        (0, 10001, 0o444, True),
        (0, 0, 0o400, False),
        (0, 0, 0o440, True),
    ],
)
def test_the_group_may_read_a_file_of_root_only(
    owner: int, user: int, mode: int, others: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "stat", lambda _: SimpleNamespace(st_uid=owner, st_mode=0o100_000 | mode))
    assert others_can_read(Path("secret"), user) == others
