"""Retention that removes messages at the source before they are copied, or at the target after it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ledger.client.admin.consumer_groups_admin import ConsumerGroupsAdmin
from ledger.mirror.copy_tally import SkippedRange
from ledger.mirror.mirror_errors import MirrorRefusedError
from ledger.mirror.mirror_progress import MirrorProgress
from ledgermq import AsyncAdmin, AsyncProducer, TopicQueue
from tests.cluster.fleet import Fleet
from tests.cluster.mirror.pair import Pair, mirrored, started_pair, values

pytestmark = pytest.mark.real

# Segments have 2 MiB.
PADDING = bytes(16 << 10)


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    async with started_pair(tmp_path) as pair:
        await pair.source.create_topic("orders", queues=1)
        yield pair


async def send(fleet: Fleet, first: int, count: int, padding: bytes = b"") -> None:
    async with AsyncProducer(bootstrap_servers=fleet.bootstrap) as producer:
        await producer.send_many("orders", [b"%d " % n + padding for n in range(first, first + count)])


async def trim(fleet: Fleet) -> int:
    """Fill segments, remove all but the last one, and return the first offset."""
    await fill(fleet)
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await admin.trim_log(keep_bytes=0)
        return (await admin.describe_topic("orders")).offsets[0].first_offset


async def fill(fleet: Fleet) -> None:
    async with AsyncAdmin(fleet.bootstrap) as admin:
        await admin.create_topic("filling", 1, exist_ok=True)
    async with AsyncProducer(bootstrap_servers=fleet.bootstrap) as producer:
        await producer.send_many("filling", [PADDING] * 400)


def numbers(queue: list[bytes]) -> list[int]:
    return [int(value.split()[0]) for value in queue]


async def test_what_the_source_has_lost_stops_the_mirror_or_is_counted(pair: Pair) -> None:
    await send(pair.source, 0, 10)
    await mirrored(pair.source, pair.target, "orders")
    await send(pair.source, 10, 10)
    assert await trim(pair.source) == 20
    await send(pair.source, 20, 10)
    with pytest.raises(MirrorRefusedError, match=r"10 messages of queue 0 .* \(offsets 10 to 19\)"):
        await mirrored(pair.source, pair.target, "orders")
    assert numbers((await values(pair.target, "orders"))[0]) == list(range(10))
    for expected in ({SkippedRange("orders", 0, 10, 20)}, set()):
        done = await mirrored(pair.source, pair.target, "orders", skips_lost=True)
        assert done.tally.skipped == expected
        assert numbers((await values(pair.target, "orders"))[0]) == [*range(10), *range(20, 30)]


async def test_a_group_in_what_was_skipped_begins_behind_it(pair: Pair) -> None:
    await send(pair.source, 0, 10)
    await mirrored(pair.source, pair.target, "orders")
    await send(pair.source, 10, 10)
    async with AsyncAdmin(pair.source.bootstrap) as admin:
        groups = ConsumerGroupsAdmin(admin._client)
        for group, offset in (("before", 4), ("within", 15)):
            await groups.set_offsets(group, {TopicQueue("orders", 0): offset})
        await trim(pair.source)
        await send(pair.source, 20, 10)
        await groups.set_offsets("behind", {TopicQueue("orders", 0): 22})
    for _ in range(2):  # the process that copied, and one that finds out
        await mirrored(pair.source, pair.target, "orders", skips_lost=True, groups=("*",))
        async with AsyncAdmin(pair.target.bootstrap) as admin:
            found = {
                group: (await admin.describe_consumer_group(group)).queues[0].offset
                for group in ("before", "within", "behind")
            }
            assert found == {"before": 4, "within": 10, "behind": 12}
            for group in found:
                await admin.delete_consumer_group(group)


async def test_an_emptied_target_goes_on(pair: Pair) -> None:
    await send(pair.source, 0, 10)
    await mirrored(pair.source, pair.target, "orders")
    assert await trim(pair.target) == 10
    await send(pair.source, 10, 10)
    assert (await mirrored(pair.source, pair.target, "orders")).tally.total == 10
    assert numbers((await values(pair.target, "orders"))[0]) == list(range(10, 20))


async def mirrored_and_killed(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy all messages, and store no progress, as a mirror that is killed then."""
    with monkeypatch.context() as patch:
        patch.setattr(MirrorProgress, "store", _nothing)
        await mirrored(pair.source, pair.target, "orders")


async def test_a_killed_mirror_and_an_emptied_target_lose_and_repeat_nothing(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last progress was not stored, and the target no longer has the copies since then. It knows their numbers."""
    await send(pair.source, 0, 10)
    await mirrored(pair.source, pair.target, "orders")
    await send(pair.source, 10, 10)
    await mirrored_and_killed(pair, monkeypatch)
    assert await trim(pair.target) == 20
    await send(pair.source, 20, 10)
    await mirrored(pair.source, pair.target, "orders")
    assert numbers((await values(pair.target, "orders"))[0]) == list(range(20, 30))


async def test_an_emptied_target_and_a_trimmed_source_lose_and_repeat_nothing(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stored progress is in what the source has trimmed since then. All of that was copied, so nothing is lost."""
    await send(pair.source, 0, 20)
    await mirrored_and_killed(pair, monkeypatch)
    assert await trim(pair.target) == 20
    assert await trim(pair.source) == 20
    await send(pair.source, 20, 10)
    assert (await mirrored(pair.source, pair.target, "orders")).tally.skipped == set()
    assert numbers((await values(pair.target, "orders"))[0]) == list(range(20, 30))


async def test_an_emptied_target_knows_what_is_next_in_a_later_run(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    await send(pair.source, 0, 10)
    await mirrored(pair.source, pair.target, "orders")
    await send(pair.source, 10, 10)
    await trim(pair.source)
    await send(pair.source, 20, 10)
    await mirrored(pair.source, pair.target, "orders", skips_lost=True)  # begins a run at message 20
    await send(pair.source, 30, 10)
    await mirrored_and_killed(pair, monkeypatch)
    assert await trim(pair.target) == 30
    await send(pair.source, 40, 10)
    await mirrored(pair.source, pair.target, "orders")
    assert numbers((await values(pair.target, "orders"))[0]) == list(range(40, 50))


async def test_a_target_that_has_removed_all_copies_says_which_message_is_next(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No progress was stored, and the target still knows the producer: nothing is copied again."""
    with monkeypatch.context() as patch:
        patch.setattr(MirrorProgress, "store", _nothing)
        for first in range(0, 40, 2):
            await send(pair.source, first, 2)
        await mirrored(pair.source, pair.target, "orders")
    assert await trim(pair.target) == 40
    await send(pair.source, 40, 10)
    await mirrored(pair.source, pair.target, "orders")
    assert numbers((await values(pair.target, "orders"))[0]) == list(range(40, 50))


async def _nothing(*_: object) -> None:
    pass


async def test_a_topic_that_was_created_again_is_copied_anew(pair: Pair) -> None:
    """At the source it is another topic; at the target it is empty."""
    await send(pair.source, 0, 10)
    await mirrored(pair.source, pair.target, "orders")
    for fleet in pair:
        async with AsyncAdmin(fleet.bootstrap) as admin:
            await admin.delete_topic("orders")
            if fleet is pair.source:
                await admin.create_topic("orders", 1)
    await send(pair.source, 100, 5)
    await mirrored(pair.source, pair.target, "orders")
    assert numbers((await values(pair.target, "orders"))[0]) == [100, 101, 102, 103, 104]
    async with AsyncAdmin(pair.target.bootstrap) as admin:
        await admin.delete_topic("orders")
    await mirrored(pair.source, pair.target, "orders")
    assert numbers((await values(pair.target, "orders"))[0]) == [100, 101, 102, 103, 104]
