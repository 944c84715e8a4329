"""Our clients against a node with authentication."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ledger.errors import AuthenticationError, LedgerError, PermissionDeniedError
from ledgermq import (
    AsyncAdmin,
    AsyncConsumer,
    AsyncGroupConsumer,
    AsyncProducer,
    AsyncPushConsumer,
    AsyncSharedConsumer,
    Message,
    Rule,
)
from tests.cluster.fleet import Fleet
from tests.cluster.secured import write_secret
from tests.cluster.waiter import eventually, until

PASSWORD = "correct horse battery"


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    (tmp_path / "password").write_text(PASSWORD)
    fleet = Fleet(
        tmp_path,
        1,
        authentication=True,
        cluster_secret_file=write_secret(tmp_path / "secret"),
        first_administrator_password_file=tmp_path / "password",
    )
    await fleet.start()
    try:

        async def begun() -> bool:
            try:
                async with AsyncAdmin(fleet.bootstrap, user="admin", password=PASSWORD) as admin:
                    return bool(await admin.list_users())
            except LedgerError:
                return False

        await eventually(begun, "the cluster has its first administrator")
        yield fleet
    finally:
        await fleet.close()


@pytest.fixture
async def admin(fleet: Fleet) -> AsyncIterator[AsyncAdmin]:
    async with AsyncAdmin(fleet.bootstrap, user="admin", password=PASSWORD) as admin:
        yield admin


async def test_a_stranger_learns_at_the_start_what_is_missing(fleet: Fleet) -> None:
    with pytest.raises(AuthenticationError, match=r"does not know who this client is .* `user` and `password`"):
        async with AsyncProducer(fleet.bootstrap):
            pass
    with pytest.raises(AuthenticationError, match="the user or the password is wrong"):
        async with AsyncProducer(fleet.bootstrap, user="admin", password="wrong password"):
            pass


async def test_users_do_what_their_rules_allow(fleet: Fleet, admin: AsyncAdmin) -> None:
    await admin.create_topic("orders", queues=1)
    await admin.create_topic("payments", queues=1)
    await admin.add_user("alice", PASSWORD)
    await admin.grant("alice", "publish", "topic:orders")
    await admin.grant("alice", "subscribe", "topic:orders")
    await admin.grant("alice", "subscribe", "group:billing")
    async with AsyncProducer(fleet.bootstrap, user="alice", password=PASSWORD) as producer:
        await producer.send("orders", b"one")
        with pytest.raises(LedgerError):
            await producer.send("payments", b"two")  # alice does not even see the topic
    async with AsyncConsumer("orders", bootstrap_servers=fleet.bootstrap, user="alice", password=PASSWORD) as consumer:
        assert (await anext(aiter(consumer))).value == b"one"
    async with AsyncGroupConsumer(
        "orders", group="billing", bootstrap_servers=fleet.bootstrap, user="alice", password=PASSWORD
    ) as member:
        assert (await anext(aiter(member))).value == b"one"
    with pytest.raises(PermissionDeniedError, match="no right to administer cluster"):
        async with AsyncAdmin(fleet.bootstrap, user="alice", password=PASSWORD) as other:
            await other.list_users()


async def test_a_revoked_right_fails_sends_at_once(fleet: Fleet, admin: AsyncAdmin) -> None:
    await admin.create_topic("orders", queues=1)
    await admin.add_user("alice", PASSWORD)
    await admin.grant("alice", "publish", "topic:orders")
    async with AsyncProducer(fleet.bootstrap, user="alice", password=PASSWORD) as producer:
        await producer.send("orders", b"one")
        assert await admin.revoke("alice", "publish", "topic:orders")
        async with asyncio.timeout(5):
            with pytest.raises(PermissionDeniedError, match="no right to publish the topic with the id"):
                await producer.send("orders", b"two")


async def test_a_producer_whose_right_comes_back_loses_no_message(fleet: Fleet, admin: AsyncAdmin) -> None:
    """The producer does not see the topic meanwhile. If it began to count anew, the node would acknowledge the next
    message as one that it has already."""
    await admin.create_topic("orders", queues=1)
    await admin.add_user("alice", PASSWORD)
    await admin.grant("alice", "all", "topic:orders")
    async with AsyncProducer(fleet.bootstrap, user="alice", password=PASSWORD, delivery_timeout_ms=2000) as producer:
        first = await producer.send("orders", b"one")
        await admin.revoke("alice", "all", "topic:orders")
        with pytest.raises(PermissionDeniedError):
            await producer.send("orders", b"two")

        async def is_unseen() -> bool:
            await producer._client.routes.refresh_all()
            return not producer._queue_selection.knows("orders")

        await eventually(is_unseen, "the producer does not see the topic any more")
        await admin.grant("alice", "all", "topic:orders")
        second = await producer.send("orders", b"three")
    assert second.offset > first.offset
    assert (await admin.get_message("orders", 0, second.offset)).value == b"three"


@dataclass
class Trial:
    """A producer of the administrator, and what a push consumer of alice has received and was told."""

    producer: AsyncProducer
    received: list[bytes] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)

    async def listener(self, message: Message) -> None:
        self.received.append(message.value)


@pytest.fixture
async def trial(fleet: Fleet, admin: AsyncAdmin, tmp_path: Path) -> AsyncIterator[Trial]:
    """A push consumer that has received its first message. Its password is in the file `alice`."""
    await admin.create_topic("orders", queues=1)
    await admin.add_user("alice", PASSWORD)
    await admin.grant("alice", "all", "topic:orders")
    await admin.grant("alice", "subscribe", "group:billing")
    (tmp_path / "alice").write_text(PASSWORD)
    async with AsyncProducer(fleet.bootstrap, user="admin", password=PASSWORD) as producer:
        trial = Trial(producer)
        async with AsyncPushConsumer(
            "orders",
            group="billing",
            listener=trial.listener,
            on_error=lambda error, _: trial.errors.append(error),
            bootstrap_servers=fleet.bootstrap,
            user="alice",
            password_file=tmp_path / "alice",
            request_timeout_ms=1_000,
        ):
            await producer.send("orders", b"one")
            await until(lambda: trial.received == [b"one"], "the first message arrives")
            yield trial


async def test_a_push_consumer_goes_on_when_its_right_comes_back(admin: AsyncAdmin, trial: Trial) -> None:
    await admin.revoke("alice", "all", "topic:orders")
    await until(lambda: bool(trial.errors), "the consumer is refused")
    await admin.grant("alice", "all", "topic:orders")
    await trial.producer.send("orders", b"two")
    await until(lambda: trial.received == [b"one", b"two"], "the second message arrives")


async def test_a_push_consumer_goes_on_when_its_password_is_right_again(
    admin: AsyncAdmin, trial: Trial, tmp_path: Path
) -> None:
    await admin.rotate_user("alice", "another password")
    await until(lambda: any(isinstance(each, AuthenticationError) for each in trial.errors), "the consumer is refused")
    (tmp_path / "alice").write_text("another password")
    await trial.producer.send("orders", b"two")
    await until(lambda: trial.received == [b"one", b"two"], "the second message arrives")


async def test_a_new_password_in_the_file_is_taken_without_a_restart(
    fleet: Fleet, admin: AsyncAdmin, tmp_path: Path
) -> None:
    await admin.create_topic("orders", queues=1)
    await admin.add_user("alice", PASSWORD)
    await admin.grant("alice", "publish", "topic:orders")
    file = tmp_path / "alice"
    file.write_text(PASSWORD)
    async with AsyncProducer(fleet.bootstrap, user="alice", password_file=file, delivery_timeout_ms=8000) as producer:
        await producer.send("orders", b"one")
        file.write_text("another password")
        await admin.rotate_user("alice", "another password")
        async with asyncio.timeout(10):
            await producer.send("orders", b"two")
        await admin.rotate_user("alice", "a third password")
        async with asyncio.timeout(10):
            with pytest.raises(AuthenticationError):
                await producer.send("orders", b"three")


async def test_users_and_rules_are_listed_and_tested(admin: AsyncAdmin) -> None:
    await admin.add_user("alice", PASSWORD)
    await admin.add_user("bob")
    await admin.grant("alice", "publish", "topic:orders-*")
    await admin.grant("alice", "publish", "topic:orders-archive", deny=True)
    assert [(user.name, user.has_password, user.rules) for user in await admin.list_users()] == [
        ("admin", True, 1),
        ("alice", True, 2),
        ("bob", False, 0),
    ]
    assert (await admin.test_right("alice", "publish", "topic:orders-eu")).allowed
    denied = await admin.test_right("alice", "publish", "topic:orders-archive")
    assert denied.rule == Rule("alice", "publish", "topic:orders-archive", deny=True)
    assert await admin.list_rules("alice") == [
        Rule("alice", "publish", "topic:orders-*"),
        Rule("alice", "publish", "topic:orders-archive", deny=True),
    ]
    await admin.remove_user("alice")
    assert await admin.list_rules() == [Rule("admin", "all", "*")]


async def test_a_client_goes_on_after_the_node_started_again(fleet: Fleet, admin: AsyncAdmin) -> None:
    await admin.create_topic("orders", queues=1)
    async with AsyncProducer(fleet.bootstrap, user="admin", password=PASSWORD) as producer:
        await producer.send("orders", b"one")
        await fleet.stop(1)
        await fleet.start(1)
        async with asyncio.timeout(30):
            await producer.send("orders", b"two")
        assert len(await admin.list_users()) == 1


async def test_a_member_of_a_shared_group_needs_rights_on_group_and_topic(fleet: Fleet, admin: AsyncAdmin) -> None:
    await admin.create_topic("leased", queues=1)
    await admin.add_user("carol", PASSWORD)
    await admin.grant("carol", "subscribe", "group:work")
    carol = {"bootstrap_servers": fleet.bootstrap, "user": "carol", "password": PASSWORD}
    async with AsyncAdmin(fleet.bootstrap, user="carol", password=PASSWORD) as stranger:
        with pytest.raises(PermissionDeniedError):
            await stranger.create_consumer_group("work")
    await admin.create_consumer_group("work")
    async with AsyncProducer(fleet.bootstrap, user="admin", password=PASSWORD) as producer:
        await producer.send_many("leased", [b"one", b"two"])
    with pytest.raises(LedgerError):
        async with AsyncSharedConsumer("leased", group="work", **carol):  # type: ignore[arg-type]
            pass
    await admin.grant("carol", "subscribe", "topic:leased")
    async with AsyncSharedConsumer("leased", group="work", **carol) as consumer:  # type: ignore[arg-type]
        (message,) = await consumer.receive(1)
        assert await consumer.ack(message) == 1
        await admin.revoke("carol", "subscribe", "topic:leased")
        with pytest.raises(PermissionDeniedError):
            await consumer.receive(1)
    with pytest.raises(PermissionDeniedError):
        async with AsyncSharedConsumer("leased", group="other", **carol):  # type: ignore[arg-type]
            pass


async def test_a_trace_shows_what_the_user_may_see(fleet: Fleet, admin: AsyncAdmin) -> None:
    await admin.create_topic("orders", 1)
    await admin.add_user("reader", PASSWORD)
    await admin.grant("reader", "subscribe", "topic:orders")
    await admin.grant("reader", "describe", "group:billing")
    async with AsyncProducer(fleet.bootstrap, user="admin", password=PASSWORD) as producer:
        await producer.send("orders", b"x")
    for group in ("billing", "secret"):
        async with AsyncGroupConsumer(
            "orders", group=group, bootstrap_servers=fleet.bootstrap, user="admin", password=PASSWORD
        ) as consumer:
            consumer.finish(await anext(consumer))
            await consumer.acknowledge()
    trace = await admin.trace_message("orders", 0, 0)
    assert {event.group for event in trace.events} == {"billing", "secret"}
    assert trace.entry.client is not None
    assert trace.entry.client.user == "admin"
    async with AsyncAdmin(fleet.bootstrap, user="reader", password=PASSWORD) as reader:
        assert {event.group for event in (await reader.trace_message("orders", 0, 0)).events} == {"billing"}
        with pytest.raises(PermissionDeniedError):
            await reader.slow_requests()
        await admin.revoke("reader", "subscribe", "topic:orders")
        with pytest.raises(LedgerError):
            await reader.trace_message("orders", 0, 0)
