"""Where a copier continues, by what both clusters answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ledger.client.producer.producer_batch import Acknowledged
from ledger.errors import DuplicateForgottenError
from ledger.mirror import queue_copier
from ledger.mirror.copy_tally import CopyTally
from ledger.mirror.queue_copier import CopierParts, Place, QueueCopier
from ledger.mirror.send_window import SentCopy


class EmptiedTarget:
    """The queue 0 of a target whose retention has removed all copies."""

    def __init__(self) -> None:
        self.queue, self.topic, self.client = 0, SimpleNamespace(topic_id="copy"), None

    async def last_copy(self) -> None:
        return None


class Progress:
    def copied(self, *_: object) -> None:
        pass

    async def store(self) -> None:
        pass


@pytest.fixture
def copier(monkeypatch: pytest.MonkeyPatch) -> QueueCopier:
    """The source has the offsets 0 to 9,999."""

    async def offsets(*_: object) -> dict[int, Any]:
        return {0: SimpleNamespace(first_offset=0, end_offset=10_000)}

    monkeypatch.setattr(queue_copier, "list_offsets", offsets)
    progress: Any = Progress()
    nothing: Any = SimpleNamespace(client=None)
    parts = CopierParts(
        nothing, nothing, CopyTally(), False, nothing, lambda: 0, progress, progress, progress, backoff=nothing
    )
    source, target = SimpleNamespace(name="orders", topic_id="original"), EmptiedTarget()
    return QueueCopier(source, target, 0, 0, parts, goes_back=False)  # type: ignore[arg-type]


def refused(first: int, error: DuplicateForgottenError) -> Any:
    return SimpleNamespace(failed=SentCopy(b"", first, 10, 0), failure=error)


async def test_an_emptied_target_says_what_is_next(copier: QueueCopier) -> None:
    copier._note_failure(refused(0, DuplicateForgottenError("100 is next", next_sequence=100)), run=0)
    assert await copier._place() == Place(0, 100)


async def test_what_was_copied_since_then_is_not_copied_again(copier: QueueCopier) -> None:
    """Retention empties the target a second time, much later, when the target no longer knows what is next."""
    copier._note_failure(refused(0, DuplicateForgottenError("100 is next", next_sequence=100)), run=0)
    copier._note(SentCopy(b"", 100, 4_900, 0), Acknowledged(0, 4_900, 0, duplicate=False))
    assert await copier._place() == Place(0, 5_000)
