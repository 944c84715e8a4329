"""Where logs are cut for a point in time."""

from __future__ import annotations

from collections.abc import Sequence

from ledger.backup.cut import ShardCut, TopicsCut
from ledger.backup.reading import EntryRange
from ledger.backup.restore import placed
from ledger.state.command_encoding import encode_command
from ledger.state.commands import Command, CreateTopic, DeleteTopic
from store import EntryDraft, EntryKind
from store.log.entry import encode
from store.log.tail import EMPTY, LogTail


def entries(*drafts: tuple[int, EntryDraft]) -> EntryRange:
    """Return entries with these append times (ms)."""
    tail, headers, content = EMPTY, [], b""
    for time_ms, draft in drafts:
        header, parts = encode(
            draft,
            index=tail.index + 1,
            term=1,
            position=tail.end,
            commit=tail.index,
            append_time_ms=time_ms,
            previous_chain=tail.chain,
        )
        headers.append(header)
        content += b"".join(parts)
        tail = LogTail.of(header)
    return EntryRange(memoryview(content), headers, EMPTY)


def batch(topic_id: int) -> EntryDraft:
    return EntryDraft(EntryKind.BATCH, b"a batch", topic_id, count=1)


def command(command: Command) -> EntryDraft:
    return EntryDraft(EntryKind.COMMAND, encode_command(command))


def creations(names: Sequence[str], begin_ms: int) -> list[tuple[int, EntryDraft]]:
    return [(begin_ms + number, command(CreateTopic(name, 1))) for number, name in enumerate(names)]


def test_entries_up_to_the_time_are_kept() -> None:
    some = entries((10, batch(1)), (20, batch(7)), (20, batch(2)), (30, batch(9)))
    for until_ms, kept, newest in ((9, 0, 0), (10, 1, 1), (20, 3, 7), (29, 3, 7), (30, 4, 9), (None, 4, 9)):
        cut = ShardCut(until_ms)
        assert (cut.kept(some), cut.newest_topic) == (kept, newest)


def test_shard_0_is_not_cut_before_the_topics_of_other_shards() -> None:
    """The clock of the leader of shard 0 is ahead."""
    some = entries((1, command(CreateTopic("a", 1))), *creations(["b", "c", "d"], 100))
    first = TopicsCut(None, 0, None)
    assert first.kept(some) == 4
    for newest, kept in ((0, 1), (1, 1), (2, 2), (3, 3), (4, 4), (99, 4)):
        assert TopicsCut(50, newest, None).kept(some) == kept
    assert TopicsCut(101, 0, None).kept(some) == 3


def test_a_deletion_after_the_time_is_left_out_unless_a_topic_after_it_is_needed() -> None:
    some = entries(
        (1, command(CreateTopic("a", 1))),
        (100, command(DeleteTopic(1))),
        (101, command(CreateTopic("a", 1))),
    )
    assert TopicsCut(50, 1, None).kept(some) == 1
    assert TopicsCut(50, 2, None).kept(some) == 3


def test_an_impossible_command_does_not_matter() -> None:
    some = entries(
        (1, command(CreateTopic("a", 1))), (2, command(CreateTopic("a", 1))), (100, command(CreateTopic("b", 1)))
    )
    assert TopicsCut(50, 2, None).kept(some) == 3


def test_the_nodes_of_a_restored_shard() -> None:
    assert placed(0, (1, 2, 3), [1, 2, 3, 4, 5]) == [1, 2, 3, 4, 5]
    assert placed(4, (1, 2, 3), [1]) == [1]
    assert placed(4, (2, 3, 5), [1, 2, 3, 4, 5]) == [2, 3, 5]
    assert placed(4, (7, 8, 9), [1, 2, 3, 4, 5]) == [1, 2, 5]
    assert placed(1, (2, 7), [1, 2, 3, 4]) == [2, 3, 4]
