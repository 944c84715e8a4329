"""A synchronous client that the program forgets without closing it: Python warns, and the client is stopped."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ledgermq import Admin, Consumer, GroupConsumer, Producer, PushConsumer, SharedConsumer
from tests.cluster.waiter import eventually

pytestmark = pytest.mark.real


def client_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("ledgermq-")]


def clear(held: list[Any]) -> None:
    held.clear()
    gc.collect()


def forget(make: Callable[[], Any]) -> None:
    held = [make()]
    with pytest.warns(ResourceWarning, match=f"unclosed {type(held[0]).__name__}: call close"):
        clear(held)


async def test_a_forgotten_member_leaves_its_group(bootstrap: str) -> None:
    def member() -> GroupConsumer[bytes]:
        consumer = GroupConsumer("orders", group="billing", bootstrap_servers=bootstrap)
        assert len(consumer.wait_assigned(20_000)) == 4
        return consumer

    forget(member)
    with GroupConsumer("orders", group="billing", bootstrap_servers=bootstrap, session_timeout_ms=60_000) as other:

        async def has_all() -> bool:
            return len(other.assignment) == 4

        await eventually(has_all, "the other member has all queues")


@pytest.mark.parametrize(
    "make",
    [
        lambda at: Admin(at),
        lambda at: Consumer("orders", bootstrap_servers=at),
        lambda at: SharedConsumer("orders", group="shared", bootstrap_servers=at),
    ],
)
async def test_the_thread_of_a_forgotten_client_ends(bootstrap: str, make: Callable[[str], Any]) -> None:
    before = client_threads()
    forget(lambda: make(bootstrap))

    async def has_ended() -> bool:
        return client_threads() == before

    await eventually(has_ended, "the thread has ended")


async def test_work_that_needs_no_program_goes_on(bootstrap: str) -> None:
    heard = threading.Event()

    def listen(_: object) -> None:
        heard.set()

    with Admin(bootstrap) as admin:
        admin.create_topic("calls", 1)
    forget(lambda: PushConsumer("calls", group="listeners", listener=listen, bootstrap_servers=bootstrap))
    with Producer(bootstrap) as producer:
        producer.send("calls", b"x")

    async def is_heard() -> bool:
        return heard.is_set()

    await eventually(is_heard, "the listener is called")


async def test_a_client_that_is_closed_says_nothing(bootstrap: str, recwarn: pytest.WarningsRecorder) -> None:
    with Admin(bootstrap) as admin:
        admin.list_topics()
    del admin
    gc.collect()
    assert not [warning for warning in recwarn if issubclass(warning.category, ResourceWarning)]
