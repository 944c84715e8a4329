"""Writes the logs of three replicas with their ConsumeQueues, without a cluster."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from ledger.batch import tag_hashes
from raft.configuration_entry import ConfiguredMember, ShardConfiguration, encode_configuration
from store import (
    CommitLog,
    ConsumeQueues,
    EntryDraft,
    EntryKind,
    Header,
    LogSettings,
    NodeDirectory,
    PosixDisk,
    VoteFile,
)

NODES = (1, 2, 3)
MAX_ENTRY_BYTES = 8 << 20


class LogFiller:
    """Appends entries to the log of the first replica."""

    def __init__(self, log: CommitLog, queues: ConsumeQueues) -> None:
        self._log = log
        self._queues = queues

    @property
    def end(self) -> int:
        """The size of the log, in bytes."""
        return self._log.end

    def append(self, drafts: Sequence[EntryDraft], *, now_ms: int = 1) -> list[Header]:
        """Append entries with this append time, and add their batches to the ConsumeQueues."""
        headers = list(self._log.append(list(drafts), term=1, commit=self._log.last_index, now_ms=now_ms))
        for header, draft in zip(headers, drafts, strict=True):
            if header.kind is EntryKind.BATCH:
                self._queues.get(header.topic_id, header.queue).put(
                    header.base_offset, header.position, header.size, tag_hashes(draft.body), header.count
                )
        self._log.prepare_next()
        return headers


def write_replicas(
    directory: Path, fill: Callable[[LogFiller], None], segment_bytes: int, *, linked: bool = False
) -> list[str]:
    """Let `fill` write a log after an entry with the configuration, and return the sources of three replicas. If
    `linked`, the files of the replicas are hard links of one copy."""
    disk, first = PosixDisk(), directory / "node-1"
    owner = NodeDirectory.open(disk, first, cluster="bench", node=1)
    VoteFile.open(disk, owner.vote_path(0), new_incarnation=bytes(range(16))).close()
    log = CommitLog.open(disk, owner.log_directory(0), LogSettings(segment_bytes=segment_bytes))
    queues = ConsumeQueues(disk, owner.queues_directory(0))
    members = {node: ConfiguredMember(bytes([node]) * 16) for node in NODES}
    configuration = ShardConfiguration("bench", members, segment_bytes, MAX_ENTRY_BYTES)
    filler = LogFiller(log, queues)
    filler.append([EntryDraft(EntryKind.CONFIGURATION, encode_configuration(configuration))])
    fill(filler)
    log.sync()
    owner.marks(0).write_clean_mark(log.clean_mark())
    log.close()
    queues.close()
    owner.close()
    return [str(first), *(_copy(first, node, linked=linked) for node in NODES[1:])]


def _copy(first: Path, node: int, *, linked: bool) -> str:
    to = first.with_name(f"node-{node}")
    # Without links, the copy keeps the holes of sparse files.
    subprocess.run(["cp", "--archive", *(["--link"] if linked else []), first, to], check=True)
    identity = to / "identity.json"
    told = json.loads(identity.read_text())
    identity.unlink()  # the link; the identity of the first node stays as it is
    identity.write_text(json.dumps({**told, "node": node}))
    return str(to)
