"""Tests `ledgermq group`, `dlq` and `consume --group` as a person uses them: as processes, against a real local
cluster."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from cluster.dead_letters import origin_of
from cluster.local.processes import DevCluster
from ledgermq import AsyncGroupConsumer, Message, SharedConsumer
from tests.cluster.cli.command import TIMEOUT_S, run, start
from tests.cluster.ports import free_base_port

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cli-groups")


@pytest.fixture(scope="module")
def cluster(directory: Path) -> Iterator[DevCluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEDGERMQ_RETRY_DELAYS_S", "0.05")
        made = DevCluster(directory / "ledgermq-data")
        made.start(3, base_port=free_base_port(3))
        yield made
        made.purge()


@pytest.fixture
def ledgermq(cluster: DevCluster, directory: Path) -> Any:
    def command(*arguments: str, **options: Any) -> tuple[str, str]:
        done = run(*arguments, cwd=directory, **options)
        return done.stdout.decode(), done.stderr.decode()

    return command


def rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines()[1:]]


def test_a_shard_consumes_goes_on_is_moved_and_deleted(ledgermq: Any) -> None:
    assert "no consumer groups yet" in ledgermq("group", "list")[1]
    ledgermq("topic", "create", "orders", "--queues", "2")
    ledgermq("produce", "orders", "--queue", "1", input=b"1\n2\n3\n4\n")
    consume = ("consume", "orders", "--group", "billing")
    assert ledgermq(*consume, "--count", "2")[0] == "1\n2\n"
    assert ledgermq(*consume)[0] == "3\n4\n"
    assert ledgermq(*consume)[0] == ""
    ledgermq("produce", "orders", "--queue", "0", input=b"5\n")

    (line,) = rows(ledgermq("group", "list")[0])
    assert line[:5] == ["billing", "0", "-", "2", "1"]
    (one,) = json.loads(ledgermq("group", "list", "--format", "json")[0])["consumer_groups"]
    assert (one["name"], one["lag"], one["dead_letters"]) == ("billing", 1, 0)
    table, said = ledgermq("group", "describe", "billing")
    assert [line[:5] for line in rows(table)] == [["orders", "0", "0", "1", "1"], ["orders", "1", "4", "4", "0"]]
    assert "no members" in said

    reset = ("group", "reset", "billing", "--to", "1", "--topic", "orders", "--queue", "1")
    table, said = ledgermq(*reset, "--dry-run")
    assert (rows(table), "would continue at 1" in said) == ([["orders", "1", "4", "1"]], True)
    assert json.loads(ledgermq(*reset, "--format", "json")[0])["queues"] == [
        {"topic": "orders", "queue": 1, "before": 4, "after": 1}
    ]
    assert sorted(ledgermq(*consume)[0].split()) == ["2", "3", "4", "5"]
    assert "continues at earliest in 2 queues" in ledgermq("group", "reset", "billing", "--to", "earliest")[1]
    assert ledgermq("group", "describe", "billing", "--format", "json")[0].count('"lag": 4') == 1
    assert "had consumed 2 queues" in ledgermq("group", "delete", "billing")[1]
    assert "no consumer groups yet" in ledgermq("group", "list")[1]


def test_members_are_shown_and_keep_a_shard_from_being_deleted(cluster: DevCluster, ledgermq: Any) -> None:
    ledgermq("topic", "create", "held", "--queues", "2")

    async def look() -> tuple[str, dict[str, Any], str]:
        consumer = AsyncGroupConsumer("held", group="holding", bootstrap_servers=cluster.bootstrap, client_id="me")
        async with consumer:
            while not consumer.assignment:
                await consumer.getmany(timeout_ms=50)
            shown = await asyncio.to_thread(ledgermq, "group", "describe", "holding")
            told = await asyncio.to_thread(ledgermq, "group", "describe", "holding", "--format", "json")
            refused = await asyncio.to_thread(ledgermq, "group", "delete", "holding", status=1)
            return shown[0], json.loads(told[0]), refused[1]

    table, told, refused = asyncio.run(look())
    assert table.splitlines()[0].split() == ["MEMBER", "CLIENT", "ROOM", "QUEUES"]
    assert "held 0,1" in table
    (member,) = told["members"]
    assert {"topic": "held", "queue": 0} in member["queues"]
    assert (told["strategy"], member["client_id"]) == ("average", "me")
    assert "stop its consumers first" in refused


def give_up(cluster: DevCluster, topic: str, group: str, count: int) -> None:
    async def work() -> None:
        async with AsyncGroupConsumer(topic, group=group, bootstrap_servers=cluster.bootstrap) as consumer:
            given_up: list[Message] = []
            while len(given_up) < count:
                for message in await consumer.getmany():
                    await consumer.give_up(message)
                    given_up.append(message)

    asyncio.run(work())


def test_dead_letters_are_listed_and_sent_again_once(cluster: DevCluster, ledgermq: Any) -> None:
    ledgermq("topic", "create", "payments", "--queues", "2")
    for command in ("list", "resend"):
        assert 'no consumer group "paying"' in ledgermq("dlq", command, "paying", status=1)[1]
    ledgermq("group", "create", "paying", "--mode", "queue")
    assert "paying" in ledgermq("group", "list")[0]
    assert "has no dead letters" in ledgermq("dlq", "resend", "paying")[1]
    assert ledgermq("dlq", "list", "paying") == ("", "0 dead letters.\n")
    ledgermq("produce", "payments", "--key", "k", "--tag", "t", input=b"a\nb\nc\n")
    give_up(cluster, "payments", "paying", 3)
    listed = rows(ledgermq("dlq", "list", "paying")[0])
    assert [(line[0], line[3], line[-1]) for line in listed] == [
        (f"%DLQ%paying:0:{number}", "1", value) for number, value in enumerate("abc")
    ]
    assert all(line[2].startswith("payments:") for line in listed)

    assert "Sent 2 messages again to payments" in ledgermq("dlq", "resend", "paying", "--max", "2")[1]
    (left,) = rows(ledgermq("dlq", "list", "paying")[0])
    assert left[-1] == "c"
    assert len(rows(ledgermq("dlq", "list", "paying", "--all")[0])) == 3
    (summary,) = [line for line in rows(ledgermq("group", "list")[0]) if line[0] == "paying"]
    assert summary[-1] == "1"
    assert json.loads(ledgermq("dlq", "resend", "paying", "--format", "json")[0])["topics"] == {"payments": 1}
    assert "has no dead letters" in ledgermq("dlq", "resend", "paying")[1]

    again = [json.loads(line) for line in ledgermq("consume", "payments", "--format", "json")[0].splitlines()]
    assert [one["value"] for one in again] == ["a", "b", "c"] * 2
    assert {(one["key"], one["tag"], len(one["headers"]), one["queue"]) for one in again} == {
        ("k", "t", 0, again[0]["queue"])
    }


def test_a_producer_does_not_choose_where_a_dead_letter_is_sent_again(cluster: DevCluster, ledgermq: Any) -> None:
    """Brokers write the header %ORIGIN when they move a message. What a producer writes there counts for nothing."""
    for topic in ("open-to-all", "private"):
        ledgermq("topic", "create", topic, "--queues", "1")
    for forged in ("private:0:0", "1", "a:b:c"):
        ledgermq("produce", "open-to-all", "-H", f"%ORIGIN={forged}", input=b"forged\n")
    give_up(cluster, "open-to-all", "opening", 3)
    listed = rows(ledgermq("dlq", "list", "opening")[0])
    assert [line[2] for line in listed] == [f"open-to-all:0:{offset}" for offset in range(3)]
    assert json.loads(ledgermq("dlq", "resend", "opening", "--format", "json")[0])["topics"] == {"open-to-all": 3}
    assert ledgermq("consume", "private")[0] == ""


@pytest.mark.parametrize("forged", ["1", "a:b:c", "a:²:0", ""])
def test_a_dead_letter_of_an_older_version_may_not_say_where_it_came_from(forged: str) -> None:
    message = Message("%DLQ%g", 0, 7, 0, 0, None, b"value", None, (("%ORIGIN", forged.encode()),), 1)
    assert origin_of(message) in ((forged, None), ("%DLQ%g", 0))


def test_topics_and_shards_are_deleted_with_all_that_is_in_them(cluster: DevCluster, ledgermq: Any) -> None:
    """Dead letters of a deleted topic cannot be sent back to the topic. Every deletion asks first."""
    ledgermq("topic", "create", "short-lived", "--queues", "1")
    ledgermq("produce", "short-lived", input=b"a\nb\n")
    give_up(cluster, "short-lived", "brief", 2)
    assert "Delete topic short-lived with 2 messages?" in ledgermq("topic", "delete", "short-lived", status=1)[1]
    assert "short-lived" in ledgermq("topic", "list")[0], "nobody said yes"
    assert ledgermq("topic", "delete", "short-lived", input=b"y\n")[1].endswith("Deleted topic short-lived.\n")
    assert "short-lived" not in ledgermq("topic", "list")[0]
    assert 'no topic "short-lived"' in ledgermq("topic", "delete", "short-lived", "--yes", status=1)[1]
    assert "is reserved" in ledgermq("topic", "delete", "%DLQ%brief", "--yes", status=1)[1]

    resent = json.loads(ledgermq("dlq", "resend", "brief", "--format", "json")[0])
    assert (resent["resent"], resent["stranded"]) == (0, {"short-lived": 2})
    assert len(rows(ledgermq("dlq", "list", "brief", "--all")[0])) == 2
    ledgermq("group", "delete", "brief", "--yes")
    left = [one["name"] for one in json.loads(ledgermq("topic", "list", "--format", "json")[0])["topics"]]
    assert "%RETRY%brief" not in left
    assert "%DLQ%brief" not in left
    assert json.loads(ledgermq("topic", "create", "short-lived", "--format", "json")[0])["name"] == "short-lived"
    assert json.loads(ledgermq("topic", "delete", "short-lived", "--yes", "--format", "json")[0]) == {
        "deleted": "short-lived"
    }


def test_a_shard_that_leaves_messages_is_deleted_by_yes(cluster: DevCluster, ledgermq: Any) -> None:
    ledgermq("topic", "create", "left", "--queues", "1")
    ledgermq("produce", "left", input=b"a\n")
    give_up(cluster, "left", "leaving", 1)
    asked = ledgermq("group", "delete", "leaving", status=1)[1]
    assert "Delete consumer group leaving, with 0 messages to be delivered again and 1 dead letter?" in asked
    assert "Deleted consumer group leaving" in ledgermq("group", "delete", "leaving", input=b"y\n")[1]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("group", "describe", "nobody"), 1, 'no consumer group "nobody"'),
        (("group", "delete", "nobody"), 1, 'no consumer group "nobody"'),
        (("group", "reset", "nobody", "--to", "earliest"), 1, 'no consumer group "nobody"'),
        (("group", "reset", "nobody", "--to", "soon"), 2, "is not a start"),
        (("group", "describe", "no spaces"), 1, "is not a valid consumer group name"),
        (("dlq", "list", "no spaces"), 1, "is not a valid consumer group name"),
        (("consume", "orders", "--group", "g", "--queue", "0"), 2, "either --group or --queue"),
        (("consume", "orders", "--group", "g", "--from", "3"), 2, "earliest, latest or a time"),
        (("consume", "nowhere", "--group", "g"), 1, "nowhere"),
    ],
)
def test_what_cannot_be_done_is_said(ledgermq: Any, arguments: tuple[str, ...], status: int, said: str) -> None:
    assert said in ledgermq(*arguments, status=status)[1]


def test_a_shared_group_is_created_described_and_deleted(cluster: DevCluster, ledgermq: Any) -> None:
    ledgermq("topic", "create", "leased", "--queues", "1")
    ledgermq("produce", "leased", input=b"1\n2\n3\n")
    create = ("group", "create", "work", "--mode", "shared", "--order", "key", "--max-attempts", "3")
    assert "Consumer group work is a shared group, with order by key." in ledgermq(*create)[1]
    assert json.loads(ledgermq(*create, "--format", "json")[0])["order"] == "key"
    with SharedConsumer("leased", group="work", bootstrap_servers=cluster.bootstrap) as consumer:
        first, *others = consumer.receive(3, lease_ms=60_000)
        consumer.ack(first)
        table, said = ledgermq("group", "describe", "work")
        (row,) = rows(table)
        assert row[:5] == ["leased", "0", "1", "3", "2"]
        assert "a shared group, with order by key; 1 consumer connected" in said
        (queue,) = json.loads(ledgermq("group", "describe", "work", "--format", "json")[0])["queues"]
        assert (queue["leased"], queue["waiting"], queue["attempts"]) == (2, 0, 1)
        consumer.ack(others)
    (listed,) = [line for line in rows(ledgermq("group", "list")[0]) if line[0] == "work"]
    assert "shared" in listed
    assert "Deleted consumer group work" in ledgermq("group", "delete", "work", "--yes")[1]


def test_a_shared_group_is_consumed_with_a_filter(ledgermq: Any) -> None:
    ledgermq("topic", "create", "parts", "--queues", "2")
    lines = [json.dumps({"value": f"{price}", "headers": {"price": f"{price}"}}) for price in range(20)]
    ledgermq("produce", "parts", "--format", "json", input="\n".join(lines).encode())
    ledgermq("group", "create", "cheap", "--mode", "shared")
    consume = ("consume", "parts", "--group", "cheap", "--where", "price < 3 OR price >= 18")
    assert sorted(ledgermq(*consume)[0].split()) == ["0", "1", "18", "19", "2"]
    assert ledgermq(*consume)[0] == "", "all messages are settled"
    for options, where, status, told in (
        (("--group", "cheap"), "price != 3", 1, "write <> and not !="),
        (("--group", "queues"), "price = 3", 2, "queues is no shared group, and --where needs one"),
        ((), "price = 3", 2, "--where needs --group with a shared group"),
    ):
        said = ledgermq("consume", "parts", *options, "--where", where, status=status)[1]
        assert told in " ".join(said.split())


@pytest.mark.parametrize("mode", ["shared", "queues"])
@pytest.mark.parametrize("output", ["full-disk", "closed-pipe"])
def test_messages_that_could_not_be_printed_are_not_acknowledged(
    ledgermq: Any, directory: Path, mode: str, output: str
) -> None:
    topic, group = f"unprinted-{mode}-{output}", f"printers-{mode}-{output}"
    ledgermq("topic", "create", topic, "--queues", "1")
    ledgermq("produce", topic, input=b"1\n2\n3\n")
    if mode == "shared":
        ledgermq("group", "create", group, "--mode", "shared")
    with (
        _unwritable(output) as stdout,
        start("consume", topic, "--group", group, cwd=directory, stdout=stdout) as command,
    ):
        _, said = command.communicate(timeout=TIMEOUT_S)
    assert "Traceback" not in said.decode()
    if output == "full-disk":
        assert (command.returncode, "No space left on device" in said.decode()) == (1, True), said.decode()
    (queue,) = json.loads(ledgermq("group", "describe", group, "--format", "json")[0])["queues"]
    assert queue["lag"] == 3


def _unwritable(output: str) -> BinaryIO:
    if output == "full-disk":
        return open("/dev/full", "wb")
    reader, writer = os.pipe()
    os.close(reader)
    return open(writer, "wb")
