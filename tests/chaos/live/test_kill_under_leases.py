"""The fault that kills nodes while messages are leased. There is no cluster: the test answers for it."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from chaos.live.faults.fault import FaultSite, NoEvidenceError
from chaos.live.faults.leases import KillUnderLeases


def strike(leased: list[int], killed: list[int]) -> str:
    def kill(node: int) -> str:
        killed.append(node)
        return f"node {node} was killed"

    environment = cast("Any", SimpleNamespace(kill=kill))
    members = cast("Any", SimpleNamespace(leased_messages=lambda: leased.pop(0)))
    site = FaultSite(environment, members, cast("Any", None), Random(1), lambda seconds: None)
    return KillUnderLeases().strike(site, [2])


@pytest.mark.parametrize(
    ("leased", "what"),
    [([31], "31 messages of shared groups were leased"), ([0, 0, 1], "1 message of shared groups was")],
)
def test_it_kills_when_messages_are_leased(leased: list[int], what: str) -> None:
    killed: list[int] = []
    assert strike(leased, killed).startswith(f"node 2 was killed; {what}")
    assert killed == [2]


def test_it_kills_nobody_if_nothing_is_leased() -> None:
    killed: list[int] = []
    with pytest.raises(NoEvidenceError, match="no message of a shared group was leased"):
        strike([0] * 20, killed)
    assert killed == []
