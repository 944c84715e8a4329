"""Arguments of an admin client's calls are checked by their names before a call does anything."""

from __future__ import annotations

import inspect
import math
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from ledger.client.admin.checked_calls import CHECKS, check_of, checks_arguments
from ledgermq import Admin, AsyncAdmin
from ledgermq.errors import ClosedError, InvalidArgumentError, InvalidTopicNameError

CALLS = {
    name: inspect.signature(function).parameters
    for name, function in inspect.getmembers(AsyncAdmin, inspect.iscoroutinefunction)
    if not name.startswith("_")
}
ARGUMENTS = [(call, name) for call, parameters in CALLS.items() for name in parameters if name != "self"]
RIGHT = [True, 7, "orders", None, [1], [("publish", "topic:orders")], ("orders", 0, 5), print, datetime.now(UTC)]
# No argument of any call may be one of these.
WRONG = [math.nan, -1, object(), b"x", {5: 5}, "\ud800", np.complex64(1)]
WRONG_KIND = (InvalidArgumentError, InvalidTopicNameError)


@pytest.mark.parametrize(("call", "name"), ARGUMENTS)
def test_every_argument_has_a_check(call: str, name: str) -> None:
    assert check_of(call, name) is not None


@pytest.mark.parametrize("name", CHECKS)
def test_every_check_belongs_to_an_argument(name: str) -> None:
    assert name in {*(argument for _, argument in ARGUMENTS), *map(".".join, ARGUMENTS)}


@pytest.mark.parametrize("name", [name for name in CHECKS if CHECKS[name].__name__ != "_checked_elsewhere"])
def test_a_check_takes_something_and_refuses_the_rest_with_the_name_of_the_argument(name: str) -> None:
    taken, argument = 0, name.rpartition(".")[2]
    for value in RIGHT:
        try:
            CHECKS[name](argument, value)
        except WRONG_KIND:
            continue
        taken += 1
    assert 1 <= taken <= 3
    for value in WRONG:
        with pytest.raises(WRONG_KIND, match=rf"^{argument} (is|has) "):
            CHECKS[name](argument, value)


@pytest.mark.parametrize(
    ("call", "arguments", "text"),
    [
        (
            "add_node",
            {"node": "4", "address": "h:1"},
            "node is '4': it must be a whole number from 1 to",
        ),
        ("remove_node", {"node": True}, "node is True: it must be"),
        ("remove_node", {"node": 1, "force": "no"}, "force is 'no': it must be True or False."),
        ("get_message", {"topic": "f", "queue": "0", "offset": 0}, "queue is '0': it must be"),
        ("get_message", {"topic": "f", "queue": 0, "offset": -1}, "offset is -1: it must be"),
        ("members", {"timeout_ms": -5}, "timeout_ms is -5: it must be a number, at least 0."),
        ("cluster", {"timeout_ms": None}, "timeout_ms is None: it must be a number"),
        ("trim_log", {"before": ("f", 0)}, "before is ('f', 0): give (topic, queue, offset)"),
        ("add_shard", {"nodes": "123"}, "nodes is '123': give a list of numbers of nodes."),
        ("add_shard", {"nodes": ["1"]}, "nodes is '1': it must be a whole number"),
        ("add_user", {"name": 5}, "name is 5: it must be a str."),
        ("add_user", {"name": "a", "password": b"x"}, "password is b'x': it must be a str."),
        ("grant", {"user": "a", "action": "publish", "resource": ["topic:f"]}, "resource is ['topic:f']: it must be"),
        ("delegate_token", {"rights": ["publish"], "ttl_ms": 5_000}, "rights has 'publish': each right must be a pair"),
        ("delegate_token", {"rights": [("publish", 5)], "ttl_ms": 5_000}, "resource is 5: it must be a str."),
        ("waiting_messages", {"begin": 5}, "begin is 5: it must be a datetime with a time zone."),
        ("trace_message_id", {"topic": "f", "message_id": "x", "on_progress": 5}, "on_progress is 5: give a function"),
        ("create_topic", {"name": "f", "queues": True}, "A topic cannot have True queues"),
        ("create_topic", {"name": "f", "type": []}, "type is []: it must be a str."),
    ],
)
async def test_a_wrong_argument_is_refused_before_the_call_does_anything(
    call: str, arguments: dict[str, Any], text: str
) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        await getattr(AsyncAdmin("127.0.0.1:1"), call)(**arguments)
    assert str(refused.value).startswith(text)


async def test_a_name_of_a_topic_has_its_own_error() -> None:
    for call in ("create_topic", "alter_topic", "delete_topic", "describe_topic"):
        with pytest.raises(InvalidTopicNameError):
            await getattr(AsyncAdmin("127.0.0.1:1"), call)(5)


async def test_numbers_of_numpy_become_plain_numbers() -> None:
    given: list[Any] = []

    @checks_arguments
    class Client:
        async def members(self, *, shard: int = 0, timeout_ms: float | None = None) -> None:
            given.extend((shard, timeout_ms))

    numbers: Any = {"shard": np.int64(3), "timeout_ms": np.float32(2)}
    await Client().members(**numbers)
    assert [type(each) for each in given] == [int, float]
    await Client().members(timeout_ms=None)
    assert given[2:] == [0, None]


async def test_right_arguments_reach_the_call() -> None:
    admin = AsyncAdmin("127.0.0.1:1")
    for call in (
        admin.set_replicas(None),
        admin.set_replicas(3, shard=0),
        admin.members(timeout_ms=math.inf),
        admin.transfer_leadership(),
        admin.rebalance(stop=np.bool_(True)),  # type: ignore[arg-type]
    ):
        with pytest.raises(ClosedError, match="not started"):
            await call


def test_the_checks_keep_names_and_docstrings() -> None:
    assert AsyncAdmin.members.__doc__
    assert AsyncAdmin.members.__name__ == "members"
    assert "shard" in inspect.signature(AsyncAdmin.members).parameters
    assert inspect.signature(AsyncAdmin.members).parameters.keys() == inspect.signature(Admin.members).parameters.keys()
