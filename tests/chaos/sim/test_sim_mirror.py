"""Mirrors in the stack world: they are killed and continued, and what the checks see."""

from __future__ import annotations

from typing import Any

import pytest

from chaos.sim.campaign.run import run
from chaos.sim.campaign.swarm import Wishes
from ledger.mirror.copied_batch import copied_batch
from ledger.mirror.queue_copier import Place, QueueCopier

WISHES = Wishes(world="stack", minutes=0.4, faults=("mirror_topics",))


@pytest.mark.long
def test_copies_are_the_messages_of_their_sources() -> None:
    report = run(3, WISHES)
    assert report.passed, report.reason
    assert report.happened["mirror_topics"] > 0
    assert report.happened["mirror_killed"] > 0


@pytest.mark.parametrize(
    ("shift", "promise"),
    [(-1, "a mirror copies each message once, in order"), (1, "a mirror leaves out nothing that the source has")],
)
def test_a_mirror_that_goes_on_at_another_place_is_found(
    shift: int, promise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = QueueCopier._place

    async def shifted(self: QueueCopier) -> Place:
        found = await place(self)
        return Place(found.next + shift, found.next + shift) if found.next > 1 else found

    monkeypatch.setattr(QueueCopier, "_place", shifted)
    assert promise in str(run(3, WISHES).reason)


def test_a_copy_with_another_content_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bytes] = []

    def of_the_first(data: bytes, *arguments: Any, **settings: Any) -> bytes:
        seen.append(data)
        return copied_batch(seen[0], *arguments, **settings)

    monkeypatch.setattr("ledger.mirror.queue_copier.copied_batch", of_the_first)
    assert "a copy is the message of the source" in str(run(3, WISHES).reason)
