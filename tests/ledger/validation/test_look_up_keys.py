"""The validation knows the look-up keys of batches: it expects their entries in the key index, and finds the
messages behind their hashes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ledger.hashing import key_hash
from ledger.validation.judging.plain_engine import PlainEngine
from ledger.validation.judging.violation import ViolationKind
from ledger.validation.validate import validate
from store import EntryDraft, EntryKind
from store.index.key_index import hashes_of_topic
from tests.ledger.validation.stopped_cluster import ORDERS, StoppedCluster, StoppedReplica, Writer

KEYS = [[b"order 1", b"ann"], [], [b"order 2", b"ann"]]


@pytest.fixture
def cluster(tmp_path: Path) -> StoppedCluster:
    """A replica with batches that have look-up keys beside keys, tags, both and none of them."""
    writer = Writer(tmp_path / "node-1")
    for topic, queues in (("orders", 2), ("events", 1)):
        writer.create_topic(topic, queues)
    for keys in (None, [b"k", None, b"l"]):
        for tags in (None, ["t", None, "u"]):
            writer.batch([b"one", b"", b"three"], keys=keys, tags=tags, look_up_keys=KEYS)
    writer.batch([b"plain"], queue=1, keys=[b"k"])
    for _ in range(3):
        writer.append(EntryDraft(EntryKind.NO_OP, b""))
    writer.stop()
    return StoppedCluster(tmp_path, 0, [StoppedReplica(tmp_path / "node-1")], writer.written)


def test_nothing_is_wrong(cluster: StoppedCluster, tmp_path: Path) -> None:
    history = cluster.history(tmp_path / "history.jsonl")
    report = validate(cluster.sources, PlainEngine(), histories=[history])
    assert report.violations == ()


def test_a_missing_entry_of_a_look_up_key_is_found(cluster: StoppedCluster) -> None:
    (wanted,) = hashes_of_topic(ORDERS, np.array([key_hash(b"order 2")], np.uint64))
    path = next(path for path in cluster.replicas[0].key_files() if wanted.tobytes() in path.read_bytes())
    cluster.replicas[0].flip(path, path.read_bytes().index(wanted.tobytes()))
    report = validate(cluster.sources, PlainEngine())
    assert ViolationKind.KEY_WRONG in {each.kind for each in report.violations}


def test_a_changed_message_behind_the_hashes_is_found(cluster: StoppedCluster, tmp_path: Path) -> None:
    cluster.written[0].value = b"two"
    history = cluster.history(tmp_path / "history.jsonl")
    (violation,) = validate(cluster.sources, PlainEngine(), histories=[history]).violations
    assert (violation.kind, violation.offset) == (ViolationKind.ACKNOWLEDGED_ALTERED, 0)
