"""Tests the synchronous clients of consumer groups against three real nodes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from cluster.local.processes import DevCluster
from ledgermq import Admin, Consumer, GroupConsumer, Message, Outcome, Producer, PushConsumer
from tests.cluster.ports import free_base_port

QUEUES = 2
SECONDS = 20


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEDGERMQ_RETRY_DELAYS_S", "0.1")
        cluster = DevCluster(tmp_path_factory.mktemp("sync-groups"))
        cluster.start(3, base_port=free_base_port(3))
        yield cluster
        cluster.purge()


def fill(cluster: DevCluster, topic: str, count: int) -> None:
    """Create the topic, and send messages 0 to `count` - 1 to its queues in turn."""
    with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap) as producer:
        admin.create_topic(topic, QUEUES)
        for value in range(count):
            producer.send(topic, b"%d" % value, queue=value % QUEUES)


def member(cluster: DevCluster, topic: str, **settings: Any) -> GroupConsumer:
    return GroupConsumer(topic, group=f"of-{topic}", bootstrap_servers=cluster.bootstrap, **settings)


def values(messages: list[Message]) -> list[int]:
    return sorted(int(message.value) for message in messages)


def read(consumer: GroupConsumer, count: int) -> list[Message]:
    messages: list[Message] = []
    while len(messages) < count:
        messages += consumer.getmany(count - len(messages), SECONDS * 1000)
    return messages


def test_what_was_asked_past_is_finished_and_what_was_only_read_ahead_is_not(cluster: DevCluster) -> None:
    fill(cluster, "iterated", 20)
    with member(cluster, "iterated") as consumer:
        seen = [next(consumer) for _ in range(8)]
        assert len(consumer.assignment) >= QUEUES
    assert list(consumer) == []  # closed: iteration is over
    consumer.close()
    with member(cluster, "iterated") as other:
        rest = read(other, 13)
    assert values([*seen[:7], *rest]) == list(range(20))  # the last one that was handed out comes again


def test_what_was_read_ahead_of_a_queue_that_is_not_this_members_any_more_is_not_handed_out(
    cluster: DevCluster,
) -> None:
    fill(cluster, "moved", 20)
    with member(cluster, "moved") as consumer, Admin(cluster.bootstrap) as admin:
        seen = [next(consumer) for _ in range(12)]  # of both queues, so the others were read ahead
        admin.reset_offsets("of-moved", "latest")
        deadline = time.monotonic() + SECONDS
        while any(consumer._client.holds(message) for message in seen):  # it was told so
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with Producer(cluster.bootstrap) as producer:
            producer.send("moved", b"20")
        assert next(consumer).value == b"20"


def test_reading_many_finishes_those_of_the_read_before(cluster: DevCluster) -> None:
    fill(cluster, "many", 10)
    with member(cluster, "many") as consumer:
        first = read(consumer, 10)
        assert consumer.getmany(timeout_ms=10) == []
        consumer.acknowledge()
        place = consumer.assignment[-1]
        assert consumer.position(*place) == 5
    assert values(first) == list(range(10))
    with member(cluster, "many") as other:
        assert other.getmany(timeout_ms=1000) == []


def test_what_is_finished_is_said_where_nothing_is_acknowledged_by_itself(cluster: DevCluster) -> None:
    fill(cluster, "by-hand", 6)
    with member(cluster, "by-hand", auto_acknowledge=False) as consumer:
        messages = read(consumer, 6)
        consumer.finish(*(message for message in messages if message.queue == 0))
    with member(cluster, "by-hand") as other:
        assert values(read(other, 3)) == [1, 3, 5]


def test_a_message_is_put_off_and_another_one_given_up(cluster: DevCluster) -> None:
    fill(cluster, "put-off", 2)
    with member(cluster, "put-off") as consumer:
        for message in read(consumer, 2):
            consumer.reconsume_later(message) if message.value == b"0" else consumer.give_up(message)
        (again,) = read(consumer, 1)
    assert (again.value, again.attempt, again.origin) == (b"0", 2, "put-off:0:0")
    with Consumer("%DLQ%of-put-off", bootstrap_servers=cluster.bootstrap) as dead_letters:
        assert next(dead_letters).value == b"1"


def test_two_members_in_two_threads_share_the_queues(cluster: DevCluster) -> None:
    fill(cluster, "shared", 40)
    seen: list[bytes] = []
    done = threading.Event()

    def work() -> None:
        with member(cluster, "shared") as consumer:
            while not done.is_set():
                seen.extend(message.value for message in consumer.getmany(5, 100))
                if len(set(seen)) == 40:
                    done.set()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert sorted(map(int, set(seen))) == list(range(40))


def test_a_listener_is_called_in_threads_of_its_own(cluster: DevCluster) -> None:
    fill(cluster, "pushed", 10)
    calls: list[tuple[bytes, int]] = []
    all_called = threading.Event()
    together = threading.Barrier(2, timeout=SECONDS)

    def listener(message: Message) -> Outcome | None:
        if message.value in (b"0", b"1"):
            together.wait()  # two are called at a time
        calls.append((message.value, message.attempt))
        if len(calls) == 11:
            all_called.set()
        return Outcome.RECONSUME_LATER if (message.value, message.attempt) == (b"5", 1) else None

    with PushConsumer("pushed", group="pushing", listener=listener, bootstrap_servers=cluster.bootstrap) as push:
        assert all_called.wait(SECONDS)
        assert len(push.assignment) >= QUEUES
    push.close()
    assert sorted(calls) == sorted([*((b"%d" % value, 1) for value in range(10)), (b"5", 2)])
    with GroupConsumer("pushed", group="pushing", bootstrap_servers=cluster.bootstrap) as after:
        assert after.getmany(timeout_ms=1000) == []


def test_what_was_read_ahead_of_a_paused_queue_waits(cluster: DevCluster) -> None:
    fill(cluster, "halted", 20)
    with member(cluster, "halted") as consumer, Consumer("halted", bootstrap_servers=cluster.bootstrap) as plain:
        for one in (consumer, plain):
            first = next(iter(one))  # and the others of its queue, or of both, are read ahead
            other = 1 - first.queue
            one.pause(("halted", first.queue))
            assert {next(iter(one)).queue for _ in range(10)} == {other}
            one.resume()
            assert {next(iter(one)).queue for _ in range(9)} == {first.queue}


def test_a_seek_lets_go_what_was_read_ahead(cluster: DevCluster) -> None:
    fill(cluster, "sought", 20)
    with member(cluster, "sought") as consumer:
        assert len(read(consumer, 20)) == 20
        consumer.seek("sought", 1, 8)
        assert [message.offset for message in read(consumer, 2)] == [8, 9]
        assert consumer.offsets_for_times({("sought", 1): 0}) == {("sought", 1): 0}
