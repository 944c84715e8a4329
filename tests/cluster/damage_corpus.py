"""A corpus of damaged data directories: every kind of damage that a test plants, each as a case with a name.

    plant: ...      three replicas of one shard, changed by a plant of tests/ledger/validation/plants.py
    node: ...       one node, changed as tests/cluster/cli/test_cli_log_verify.py changes it
    replicas: ...   two or three copies of a node, changed as tests/cluster/cli/test_cli_log_diff.py changes them

A case gives the data directories of its nodes. `test_damage_corpus.py` runs the verifier over every case.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from store import Checkpoint
from store.index.key_file import ENTRY_BYTES, HEADER
from tests.cluster.stopped_node import SEGMENT, StoppedNode, append_batch
from tests.ledger.validation.plants import PLANTS
from tests.ledger.validation.stopped_cluster import NODES, StoppedCluster, StoppedReplica

ENTRY_FIELDS = {
    "magic": 0, "size": 8, "count": 12, "index": 16, "term": 24, "position": 32, "commit": 40, "append time": 48,
    "base offset": 56, "topic": 64, "queue": 68, "crc": 72, "chain": 76, "body": 90,
}  # fmt: skip
Damage = Callable[[StoppedNode], object]


@dataclass(frozen=True, slots=True)
class Corpus:
    """The undamaged directories, from which each case is copied."""

    path: Path
    whole: StoppedCluster

    @staticmethod
    def make(path: Path) -> Corpus:
        StoppedNode.make(path / "node")
        StoppedNode.make(path / "short", 4)
        return Corpus(path, StoppedCluster.make(path / "cluster"))

    def cluster(self, path: Path) -> StoppedCluster:
        shutil.copytree(self.path / "cluster", path, dirs_exist_ok=True)
        return replace(self.whole, path=path, replicas=[StoppedReplica(path / f"node-{node}") for node in NODES])

    def node(self, path: Path) -> StoppedNode:
        return StoppedNode(self.path / "node").copy(path)

    @property
    def short(self) -> StoppedNode:
        """A directory whose log has only the first five entries of the same log."""
        return StoppedNode(self.path / "short")


Case = Callable[[Corpus, Path], list[Path]]
"""Makes a case in an empty directory, and returns the data directories of its nodes."""
CASES: dict[str, Case] = {}


def _plant_case(name: str) -> Case:
    def make(corpus: Corpus, path: Path) -> list[Path]:
        cluster = corpus.cluster(path)
        PLANTS[name](cluster)
        return [replica.path for replica in cluster.replicas]

    return make


def _node_case(damage: Damage) -> Case:
    def make(corpus: Corpus, path: Path) -> list[Path]:
        node = corpus.node(path / "node")
        damage(node)
        return [node.path]

    return make


CASES |= {f"plant: {name}": _plant_case(name) for name in PLANTS}


def case(name: str) -> Callable[[Case], Case]:
    def add(make: Case) -> Case:
        CASES[name] = make
        return make

    return add


def damage(name: str) -> Callable[[Damage], Damage]:
    def add(change: Damage) -> Damage:
        CASES[f"node: {name}"] = _node_case(change)
        return change

    return add


def key_files(node: StoppedNode) -> list[Path]:
    """Return the two files of the key index that hold entries."""
    return sorted(path for path in node.keys.iterdir() if not path.suffix)


# -- entries


def _flipped(index: int, offset: int) -> Damage:
    def change(node: StoppedNode) -> None:
        header = node.headers()[index - 1]
        if header.size > offset:
            node.flip(node.segment(header.position), header.position % SEGMENT + offset)

    return change


for _index in (1, 5, 14, 40, 41):
    for _field, _offset in ENTRY_FIELDS.items():
        if (_index, _field) != (1, "body"):
            damage(f"flipped {_field} of entry {_index}")(_flipped(_index, _offset))


damage("nothing")(lambda _: None)


@damage("swapped entries")
def swapped(node: StoppedNode) -> None:
    headers = node.headers()
    one = next(h for h, after in pairwise(headers) if h.index > 2 and h.size == after.size)
    other = headers[one.index]
    data = node.segment(0).read_bytes()
    node.overwrite(node.segment(0), one.position, data[other.position : other.end] + data[one.position : one.end])


for _number in range(3):
    damage(f"missing segment {_number}")(lambda node, number=_number: node.segment(number * SEGMENT).unlink())  # type: ignore[misc]
damage("missing last segment after a kill")(lambda node: node.killed().segment(2 * SEGMENT).unlink())


@case("node: old copy of a segment")
def old_copy(corpus: Corpus, path: Path) -> list[Path]:
    node = corpus.node(path / "node")
    node.segment(0).write_bytes(corpus.short.segment(0).read_bytes())
    return [node.path]


@damage("resurrected tail")
def resurrected(node: StoppedNode) -> None:
    last = node.headers()[-1]
    path = node.segment(last.position)
    before = path.read_bytes()
    log = node.open()
    log.truncate(39)
    append_batch(log, 38, term=5)
    log.close()
    node.overwrite(path, last.position % SEGMENT, before[last.position % SEGMENT : last.end % SEGMENT])


@damage("torn end after an orderly stop")
def torn(node: StoppedNode) -> None:
    last = node.headers()[-1]
    node.overwrite(node.segment(last.position), last.end % SEGMENT + 8, b"torn")


damage("torn end after a kill")(lambda node: torn(node.killed()))
damage("shortened segment")(lambda node: os.truncate(node.segment(SEGMENT), 1000))


@damage("entries of another version")
def another_version(node: StoppedNode) -> None:
    for header in node.headers():
        node.overwrite(node.segment(header.position), header.position % SEGMENT + 4, b"\x02")


# -- ConsumeQueues


for _offset, _byte in ((0, 0), (7, 9), (7, 12), (39, 19)):
    damage(f"wrong unit {_offset}, byte {_byte}")(
        lambda node, place=_offset * 20 + _byte: node.flip(node.units(1), place)  # type: ignore[misc]
    )
damage("run of wrong units")(lambda node: node.overwrite(node.units(0), 5 * 20, b"\xff" * 140))
damage("missing units")(lambda node: os.truncate(node.units(0), 30 * 20))
damage("missing units after a kill")(lambda node: os.truncate(node.killed().units(0), 30 * 20))


@damage("units too many")
def units_too_many(node: StoppedNode) -> None:
    path = node.units(0)
    path.write_bytes(path.read_bytes() + path.read_bytes()[:23])


# -- small files


damage("damaged vote")(lambda node: node.flip(node.shard / "vote", 5))
damage("damaged clean mark")(lambda node: node.flip(node.shard / "clean", 1))
damage("damaged boot record")(lambda node: node.flip(node.shard / "boot", 1))
damage("missing vote")(lambda node: (node.shard / "vote").unlink())
damage("no suspect mark")(lambda node: (node.shard / "suspect").write_bytes(b"{"))
damage("no repair mark")(lambda node: (node.shard / "repair").write_bytes(b"{"))
damage("no identity")(lambda node: (node.path / "identity.json").write_bytes(b"{"))


def keep_snapshot(node: StoppedNode, index: int) -> Path:
    log = node.open()
    path = node.shard / "snapshots" / f"{index:020}"
    path.write_bytes(log.snapshot_at(index, configuration=b"", state=b"state").encode())
    log.close()
    return path


damage("damaged snapshot")(lambda node: node.flip(keep_snapshot(node, 8), 20))


@case("node: snapshot of another log")
def snapshot_of_another_log(corpus: Corpus, path: Path) -> list[Path]:
    node = corpus.node(path / "node")
    snapshot = keep_snapshot(node, 8)
    log = corpus.short.copy(path / "other").open()
    other = append_batch(log, 4, term=2)
    while other.index < 8:
        other = append_batch(log, other.index - 1, term=2)
    snapshot.write_bytes(log.snapshot_at(8, configuration=b"", state=b"").encode())
    log.close()
    return [node.path]


@damage("damaged snapshot where the log begins")
def damaged_beginning(node: StoppedNode) -> None:
    snapshot = keep_snapshot(node, 8).rename(node.shard / "snapshot")
    node.flip(snapshot, 20)


damage("log that begins behind a snapshot")(lambda node: keep_snapshot(node, 20).rename(node.shard / "snapshot"))


# -- the key index


for _file, _entry in ((0, 0), (0, 15), (1, 0), (1, 11), (1, 23)):
    for _at in range(0, ENTRY_BYTES, 4):
        damage(f"wrong key {_entry} of file {_file}, byte {_at}")(
            lambda node, file=_file, at=HEADER.size + _entry * ENTRY_BYTES + _at: node.flip(key_files(node)[file], at)  # type: ignore[misc]
        )
for _offset in (0, 7, 15):
    damage(f"wrong slot at {_offset}")(
        lambda node, offset=_offset: node.flip(key_files(node)[0].with_suffix(".slots"), offset)  # type: ignore[misc]
    )
damage("missing slots")(lambda node: key_files(node)[0].with_suffix(".slots").unlink())
for _file in (0, 1):
    damage(f"unreadable key file {_file}")(lambda node, file=_file: node.flip(key_files(node)[file], 1))  # type: ignore[misc]
    damage(f"missing key file {_file}")(lambda node, file=_file: key_files(node)[file].unlink())  # type: ignore[misc]


@damage("missing end of the keys")
def keys_cut(node: StoppedNode) -> None:
    os.truncate(key_files(node)[1], HEADER.size + 10 * ENTRY_BYTES + 3)


damage("missing end of the keys after a kill")(lambda node: keys_cut(node.killed()))


@damage("missing key among others")
def key_cut_out(node: StoppedNode) -> None:
    path = key_files(node)[1]
    data, at = path.read_bytes(), HEADER.size + 5 * ENTRY_BYTES
    path.write_bytes(data[:at] + data[at + ENTRY_BYTES :])


# -- the checkpoint


damage("damaged checkpoint")(lambda node: node.flip(node.shard / "checkpoint", 30))


@case("node: checkpoint of another log")
def checkpoint_of_another_log(corpus: Corpus, path: Path) -> list[Path]:
    node = corpus.node(path / "node")
    other = corpus.node(path / "other").open()
    other.truncate(19)
    append_batch(other, 18, term=2)
    place = other.snapshot_at(20, configuration=b"", state=b"")
    other.close()
    (node.shard / "checkpoint").write_bytes(Checkpoint(place, 0, False, ()).encode())
    return [node.path]


@damage("checkpoint behind the end of the log")
def cut_before_the_checkpoint(node: StoppedNode) -> None:
    log = node.open()
    log.truncate(12)
    log.close()


@damage("wrong positions")
def wrong_positions(node: StoppedNode) -> None:
    path = node.shard / "positions" / f"{0:020}"
    node.flip(path, 5 * 20 + 3)
    node.overwrite(path, 8 * 20, b"\xff" * 60)


damage("missing positions")(lambda node: (node.shard / "positions" / f"{0:020}").unlink())


# -- replicas


Change = Callable[[StoppedNode, StoppedNode], object]
"""Of the second and the third of three copies."""


def replicas(name: str) -> Callable[[Change], Change]:
    def add(change: Change) -> Change:
        def make(corpus: Corpus, path: Path) -> list[Path]:
            nodes = [corpus.node(path / name) for name in ("a", "b", "c")]
            for number, node in enumerate(nodes, 1):
                node.set_node(number)
            change(nodes[1], nodes[2])
            return [node.path for node in nodes]

        CASES[f"replicas: {name}"] = make
        return change

    return add


def cut(node: StoppedNode, last: int, *more: int, term: int = 2, commit: int | None = None) -> None:
    """Cut the log after entry `last`, and append these batches with another term."""
    log = node.open()
    log.truncate(last)
    for number in more:
        append_batch(log, number, term=term, commit=commit)
    log.close()


replicas("the same")(lambda _b, _c: None)
replicas("a prefix")(lambda b, _c: cut(b, 17))
replicas("an empty log")(lambda b, _c: cut(b, 0))
replicas("a fork in a tail")(lambda b, _c: cut(b, 30, 29, 30, 31, 32, 33, commit=30))
replicas("a fork in what is committed")(lambda b, _c: cut(b, 30, 29, 30))


@replicas("a prefix and a fork")
def prefix_and_fork(prefix: StoppedNode, fork: StoppedNode) -> None:
    cut(prefix, 12)
    cut(fork, 20, 19, term=3, commit=20)


replicas("a damaged one")(lambda b, _c: b.flip(b.segment(0), b.headers()[9].position + 90))
