"""Writes the replica of one shard into a data directory, as a follower writes what it receives.

The last entry is new. It is a configuration entry in a new term, which names the members of the new cluster with the
incarnations of the new data directories. All replicas have it, so it is committed. Earlier configuration entries name
the nodes of the old cluster; they stay, because the chain covers them, and have no effect.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace

from ledger.backup.reading import EntryRange
from raft.configuration_entry import (
    INCARNATION_BYTES,
    ConfiguredMember,
    ShardConfiguration,
    encode_configuration,
)
from store import (
    CommitLog,
    Disk,
    EntryDraft,
    EntryKind,
    LogSettings,
    NodeDirectory,
    PreviousRun,
    Snapshot,
    Vote,
)


class ShardWriter:
    def __init__(
        self, disk: Disk, directory: NodeDirectory, shard: int, segment_bytes: int, snapshot: Snapshot | None
    ) -> None:
        """The directory has no data of the shard. `snapshot` is the snapshot at the log start, if the log does not
        begin at entry 1. Raises StoreError."""
        self.incarnation = secrets.token_bytes(INCARNATION_BYTES)
        self._directory = directory
        self._shard = shard
        self._votes = directory.votes(shard, new_incarnation=self.incarnation)
        snapshots = directory.snapshots(shard)
        if snapshot is not None:
            snapshots.begin_reset(snapshot)
        self._log = CommitLog.open(
            disk,
            directory.log_directory(shard),
            LogSettings(segment_bytes=segment_bytes),
            PreviousRun(snapshot=snapshot, is_resetting=snapshots.is_resetting),
        )
        snapshots.finish_reset()

    def write(self, entries: EntryRange, count: int) -> None:
        """Append the first `count` entries. Raises StoreError."""
        if count:
            end = entries.headers[count - 1].end - entries.headers[0].position
            self._log.write(entries.content[:end], entries.headers[:count], entries.headers[0].index)

    def finish(self, configuration: ShardConfiguration, now_ms: int) -> None:
        """Append the configuration of the new cluster, flush everything and leave the directory as after an orderly
        stop. Raises StoreError."""
        tail = self._log.tail
        term = tail.term + 1
        draft = EntryDraft(EntryKind.CONFIGURATION, encode_configuration(configuration))
        self._log.append([draft], term=term, commit=tail.index, now_ms=now_ms)
        self._log.sync()
        self._votes.save(Vote(term, 0, self.incarnation))
        self._directory.marks(self._shard).write_clean_mark(self._log.clean_mark())
        self.close()

    def close(self) -> None:
        self._log.close()
        self._votes.close()


def configuration_of(
    last: ShardConfiguration, cluster: str, addresses: Mapping[int, str], incarnations: Mapping[int, bytes]
) -> ShardConfiguration:
    """Return the configuration of a restored shard. The sizes stay, because the log depends on them."""
    voters = {node: ConfiguredMember(incarnation, addresses[node]) for node, incarnation in incarnations.items()}
    return replace(last, cluster=cluster, voters=voters, learners={})
