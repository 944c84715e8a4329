"""The validation as an application of its own: how it ends."""

from __future__ import annotations

import errno
import os

import pytest

from ledger.spark.validation import application as validation


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/out"), "Error: /out: No space left on device"),
        (ZeroDivisionError("a bug"), "ZeroDivisionError: a bug"),
    ],
)
def test_what_fails_is_not_judged(
    failure: Exception, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr(validation, "validate_on_spark", fail)
    assert validation.main(["/data/node-1"]) == 2
    told = capsys.readouterr().err.splitlines()
    assert told[-1] == said
    assert (len(told) > 1) == isinstance(failure, ZeroDivisionError)  # where a fault of our own lies must be told
