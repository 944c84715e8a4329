"""The simulator's invariants of messages with delivery times: each notices a violation and accepts what is right."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from chaos.sim.campaign.run import run
from chaos.sim.campaign.swarm import Wishes
from chaos.sim.stack.node import START_MS
from chaos.sim.stack.timed_truth import CLOCK_ERROR_MS, TimedTruth
from chaos.sim.stack.workload_history import NO_ORDER, LoadHistory
from ledger.batch import Batch, TimedColumn, Waiting, encode, firing_batch
from ledger.codec import Codec
from ledger.timed import TimedHandle
from ledger.v1 import command_pb2
from store import EntryKind, Header

TARGET, WAITING = 2, 1
NODES = (1, 2, 3)


class Log:
    """The committed entries of one shard with three nodes, and the violations that were found."""

    def __init__(self, *, is_exact: bool = True) -> None:
        self.wrong: list[str] = []
        self.now_s = 10.0
        self.nodes: list[Any] = [SimpleNamespace(node=node, clock_ms=0) for node in NODES]
        rosters = SimpleNamespace(of=lambda shard: SimpleNamespace(voters=self.nodes))
        self.truth = TimedTruth(
            lambda invariant, _: self.wrong.append(invariant),
            lambda: self.now_s,
            cast(Any, rosters),
            self.nodes,
            is_exact=is_exact,
        )
        self.batches: list[tuple[Batch, int]] = []
        self._index = 0

    def wait(self, names: list[bytes], times_s: list[float]) -> None:
        """Append a batch of messages that wait for these times of the run."""
        times = np.array([ms(time_s) for time_s in times_s], np.int64)
        first = len(self.batches)
        body = encode(
            [name + b":body" for name in names], topic_id=WAITING, queue=0, producer_id=7, epoch=0,
            first_sequence=first, base_timestamp_ms=START_MS, timed=TimedColumn(TARGET, 0, times),
        )  # fmt: skip
        self.batches += [(Batch(body), place) for place in range(len(names))]
        self._entry(EntryKind.BATCH, body, WAITING, first, len(names))

    def fire(self, identities: list[int], times_s: list[float], queue: int = 0) -> None:
        count = len(identities)
        chosen = [self.batches[identity] for identity in identities]
        body = firing_batch(
            Waiting(
                [batch for batch, _ in chosen],
                np.arange(count),
                np.array([place for _, place in chosen], np.int64),
                np.array(identities, np.uint64),
                np.array([ms(time_s) for time_s in times_s], np.int64),
            ),
            topic_id=TARGET, queue=queue, first_sequence=0, codec=Codec.NONE,
        )  # fmt: skip
        self._entry(EntryKind.BATCH, body, TARGET, 0, count, queue)

    def command(self, **command: Any) -> None:
        self._entry(EntryKind.COMMAND, command_pb2.Command(**command).SerializeToString(), 0, 0, 0)

    def cancel(self, identity: int, time_s: float) -> None:
        item = command_pb2.TimedMessage(identity=identity, delivery_ms=ms(time_s))
        self.command(cancel_timed=command_pb2.CancelTimed(items=[item]))

    def settle(self, through_s: float, seen: int) -> None:
        self.command(settle_timed=command_pb2.SettleTimed(through_ms=ms(through_s), through_identity=9, seen=seen))

    def _entry(self, kind: EntryKind, body: bytes, topic_id: int, offset: int, count: int, queue: int = 0) -> None:
        self._index += 1
        header = cast(Header, SimpleNamespace(kind=kind, topic_id=topic_id, queue=queue, base_offset=offset,
                                              count=count, index=self._index))  # fmt: skip
        self.truth.committed(0, header, body)


def ms(time_s: float) -> int:
    return START_MS + round(time_s * 1000)


def handle(identity: int, time_s: float) -> str:
    return str(TimedHandle(TARGET, 0, identity, ms(time_s)))


@pytest.fixture
def log() -> Log:
    made = Log()
    made.wait([b"7.1", b"7.2", b"7.3"], [1, 2, 2])
    return made


def test_right_deliveries_and_cancels_are_accepted(log: Log) -> None:
    log.truth.acknowledged(b"7.1", handle(0, 1))
    log.cancel(1, 2)
    log.truth.cancelled(handle(1, 2), is_cancelled=True)
    log.fire([0, 2], [1, 2])
    log.truth.cancelled(handle(0, 1), is_cancelled=False)
    log.settle(2, 3)
    assert log.wrong == []
    assert list(log.truth.unsettled()) == []


def test_a_second_delivery(log: Log) -> None:
    log.fire([0], [1])
    log.fire([0], [1])
    assert "a timed message is delivered once" in log.wrong


def test_a_delivery_after_a_cancel(log: Log) -> None:
    log.cancel(0, 1)
    log.fire([0], [1])
    assert log.wrong == ["a timed message is delivered once"]


def test_a_delivery_into_another_queue(log: Log) -> None:
    log.fire([0], [1], queue=1)
    assert log.wrong == ["delivered as it was sent"]


def test_a_delivery_as_of_another_time(log: Log) -> None:
    log.fire([0], [1.5])
    assert log.wrong == ["delivered as it was sent"]


def test_equal_times_in_the_wrong_order(log: Log) -> None:
    log.fire([2, 1], [2, 2])
    assert log.wrong == ["equal times keep their order"]


def test_an_early_delivery() -> None:
    log = Log()
    log.wait([b"7.1"], [12])
    log.fire([0], [12])
    assert log.wrong == ["never early"]


@pytest.mark.parametrize(("ahead", "wrong"), [([1], ["never early"]), ([1, 2], [])])
def test_the_clocks_of_a_majority_decide(ahead: list[int], wrong: list[str]) -> None:
    log = Log()
    log.wait([b"7.1"], [12])
    for node in log.nodes:
        node.clock_ms = 5_000 if node.node in ahead else 0
    log.truth.watch()
    log.fire([0], [12])
    assert log.wrong == wrong


def test_fast_clocks_are_allowed_an_error() -> None:
    log = Log(is_exact=False)
    log.wait([b"7.1", b"7.2"], [12, 10.001 + CLOCK_ERROR_MS / 1000])
    log.fire([0], [12])
    assert log.wrong == []
    log.fire([1], [10.001 + CLOCK_ERROR_MS / 1000])
    assert log.wrong == ["never early"]


def test_a_message_that_is_due_and_waits(log: Log) -> None:
    log.wait([b"7.4"], [1000])
    log.fire([0], [1])
    log.settle(1.5, 4)
    assert list(log.truth.unsettled()) == ["shard 0 has 2 messages that are due"]


def test_a_turn_that_does_not_end(log: Log) -> None:
    log.fire([0, 1, 2], [1, 2, 2])
    log.settle(2, 2)
    log.settle(1, 3)
    assert list(log.truth.unsettled()) == ["shard 0 has 1 delivered messages that no turn has settled"]
    log.settle(2, 3)
    assert list(log.truth.unsettled()) == []


def test_a_turn_that_cannot_end_because_the_clocks_went_back(log: Log) -> None:
    log.fire([0, 1, 2], [1, 2, 2])
    log.settle(60, 3)
    log.wait([b"7.4", b"7.5"], [5, 20])  # both are late, and one of them is not due
    log.fire([3], [5])
    assert list(log.truth.unsettled()) == []
    log.nodes[1].clock_ms = 11_000
    assert list(log.truth.unsettled()) == [], "not all clocks have passed the time"
    log.now_s = 21.0
    assert "shard 0 has 1 delivered messages that no turn has settled" in list(log.truth.unsettled())


def test_a_message_that_is_dropped(log: Log) -> None:
    log.command(settle_timed=command_pb2.SettleTimed(through_ms=ms(3), seen=3, settled=[0]))
    assert log.wrong == ["dropped with its topic"]


def test_a_message_of_a_deleted_topic_is_dropped(log: Log) -> None:
    log.command(delete_topic=command_pb2.DeleteTopic(topic_id=TARGET))
    assert list(log.truth.unsettled()) == ["shard 0 has 3 messages that are due"]
    log.command(settle_timed=command_pb2.SettleTimed(through_ms=ms(3), seen=3, settled=[0, 1, 2]))
    assert (log.wrong, list(log.truth.unsettled())) == ([], [])
    assert log.truth.counts["timed_dropped"] == 3


def test_answers_to_cancels(log: Log) -> None:
    log.truth.cancelled(handle(0, 1), is_cancelled=True)
    assert log.wrong == ["cancelled is cancelled"]
    log.truth.cancelled(handle(0, 1), is_cancelled=False)  # due: it can be in a turn that is not committed yet
    log.wait([b"7.4"], [1000])
    assert log.wrong[1:] == []
    log.truth.cancelled(handle(3, 1000), is_cancelled=False)
    assert log.wrong[1:] == ["not cancelled is over"]


def test_a_wrong_handle(log: Log) -> None:
    log.truth.acknowledged(b"7.1", handle(1, 2))
    log.truth.acknowledged(b"7.1", handle(9, 1))
    assert log.wrong == ["acknowledged is committed"] * 2


def test_a_message_that_failed_or_waits_twice(log: Log) -> None:
    log.truth.failed(b"7.1")
    log.truth.failed(b"7.9")
    log.wait([b"7.9"], [5])
    log.wait([b"7.2"], [5])
    assert log.wrong == ["failed is not committed", "failed is not committed", "a timed message waits once"]


def test_what_never_waited(log: Log) -> None:
    log.truth._messages.clear()
    log.fire([0], [1])
    assert log.wrong == ["delivered has waited"]


def test_a_scheduled_message_has_no_place_yet() -> None:
    wrong: list[str] = []
    history = LoadHistory(lambda invariant, _: wrong.append(invariant))
    sent = history.send(7, "orders", NO_ORDER)
    history.scheduled(sent)
    history.committed(0, 0, [sent.name + b":"])
    assert (wrong, history.total) == ([], 1)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("turn_end_held_back", "delay: a leader goes on with the turn of an earlier leader"),
        ("clocks_go_back", "delay: late messages that are not due wait"),
        ("target_deleted", "delay: messages of a deleted topic are settled without delivery"),
    ],
)
def test_a_directed_fault_reaches_its_place_and_the_run_is_right(kind: str, place: str) -> None:
    found = run(1, Wishes(world="stack", minutes=0.4, faults=(kind,)))
    assert (found.passed, found.reason) == (True, "")
    assert found.happened[kind] > 0
    assert place in found.reached


@pytest.mark.long
def test_a_leader_dies_in_a_turn() -> None:
    """The fault kind has an effect, and the run is right: messages are delivered by the next leader."""
    found = run(11, Wishes(world="stack", minutes=0.4, faults=("leader_ends_at_due",)))
    assert found.reason == ""
