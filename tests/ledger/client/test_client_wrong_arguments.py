"""Arguments of a wrong type are refused where they are given, with a sentence that names them."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from datetime import UTC, date, datetime
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ledger.client.admin.offsets import offsets_for_times
from ledger.client.checked_arguments import checked_callable, checked_client_id, checked_hook, checked_pairs
from ledger.client.connection.channels import parse_addresses
from ledger.client.connection.route_table import RouteTable
from ledger.client.consumer.consumer import checked_start
from ledger.client.group.group_consumer import AsyncGroupConsumer
from ledger.client.producer.arguments import checked_timestamp
from ledger.client.records import Message
from ledger.client.shared.shared_consumer import as_list
from ledger.client.shared.shared_message import MessageLease, SharedMessage
from ledger.codec import Codec
from ledger.consumer_groups import validate_consumed_name, validate_group_name, validate_room
from ledger.errors import InvalidArgumentError, InvalidGroupNameError, InvalidTopicNameError, UnknownQueueError
from ledgermq import (
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    AsyncPushConsumer,
    AsyncRequester,
    AsyncResponder,
    AsyncSharedConsumer,
    GroupConsumer,
    OutgoingMessage,
    PushConsumer,
    Responder,
    SharedConsumer,
    stop_on_signal,
)

NOWHERE = "127.0.0.1:1"
FUNCTION: Any = lambda *_: None  # noqa: E731
CLIENTS: dict[str, Callable[..., Any]] = {
    "admin": AsyncAdmin,
    "producer": AsyncProducer,
    "consumer": lambda **given: AsyncConsumer("f", **given),
    "group": lambda **given: AsyncGroupConsumer("f", **{"group": "g", **given}),
    "sync group": lambda **given: GroupConsumer("f", **{"group": "g", **given}),
    "push": lambda **given: AsyncPushConsumer("f", **{"group": "g", "listener": FUNCTION, **given}),
    "sync push": lambda **given: PushConsumer("f", **{"group": "g", "listener": FUNCTION, **given}),
    "shared": lambda **given: AsyncSharedConsumer("f", **{"group": "g", **given}),
    "requester": AsyncRequester,
    "responder": lambda **given: AsyncResponder("f", **{"group": "g", "handler": FUNCTION, **given}),
}
GROUPS = ("group", "push", "shared", "responder")
READERS = ("consumer", *GROUPS)
START = 'it must be "earliest", "latest", an offset or a datetime.'
GROUP_START = 'it must be "earliest", "latest" or a datetime.'
TAGS = 'give a list of tags, or a text such as "paid || refunded".'

SETTINGS: list[tuple[tuple[str, ...], str, Any, str]] = [
    *((GROUPS, "group", wrong, "A consumer group's name must be a str; it is") for wrong in (None, 5, b"g", ["g"])),
    (("group", "push"), "room", 5, "The machine room must be a str; it is 5."),
    (READERS, "tags", 5, f"tags is 5: {TAGS}"),
    (READERS, "tags", b"paid", f"tags is b'paid': {TAGS}"),
    (READERS, "tags", [5], "tags has 5: each tag must be a str."),
    (READERS, "tags", [], "[] is not a tag expression"),
    (READERS, "tags", [""], "[''] is not a tag expression"),
    (READERS, "tags", ["*", "paid"], "['*', 'paid'] is not a tag expression"),
    (("consumer",), "queues", [], "queues is empty, so nothing would be read"),
    (("consumer",), "queues", 5, "queues is 5: give a list of numbers."),
    (("consumer",), "queues", "12", "queues is '12': give a list of numbers."),
    (("consumer",), "queues", ["1"], "queues is '1': it must be a whole number, at least 0."),
    (("consumer",), "node", "1", "node is '1': it must be a whole number, at least 1."),
    (("shared",), "where", 5, "where is 5: it must be a str"),
    (("producer",), "compression", 5, "Compression 5 is not known"),
    *((("producer",), "history", wrong, f"history is {wrong!r}: give the path") for wrong in (5, b"x", "", "a\0b")),
    *(
        (tuple(CLIENTS), name, 5, f"`{name}` is 5: give the path")
        for name in ("ca", "client_certificate", "client_key", "password_file")
    ),
    *((tuple(CLIENTS), name, 5, f"`{name}` must be a str, not int.") for name in ("user", "password", "token")),
    (tuple(CLIENTS), "tls", "yes", "`tls` must be True or False; it is 'yes'."),
    (("producer",), "encoding", 5, "There is no encoding 5"),
    (("producer",), "encoding", "a\0b", "There is no encoding"),
    (("producer",), "serializer", 5, "serializer is 5: give a function that makes bytes of a value"),
    (("producer",), "queue_selector", 5, "queue_selector is 5: give a function of an UnplacedMessage"),
    (
        ("consumer", "group", "push", "shared"),
        "deserializer",
        5,
        "deserializer is 5: give a function that makes a value",
    ),
    *(
        (("group", "push", "sync group", "sync push"), name, 5, f"{name} is 5: give a function of a list of queues.")
        for name in ("on_assigned", "on_revoked", "on_lost")
    ),
    *((tuple(CLIENTS), "rng", wrong, f"rng is {wrong!r}: give a random.Random") for wrong in (5, 0, "")),
    *(
        (
            ("consumer", "group", "push", "shared", "sync group"),
            "check_crcs",
            wrong,
            f"check_crcs is {wrong!r}: it must",
        )
        for wrong in (5, "no", None)
    ),
    (("group", "sync group"), "auto_acknowledge", "no", "auto_acknowledge is 'no': it must be True or False."),
    (("push", "sync push"), "orderly", 1, "orderly is 1: it must be True or False."),
    *((("producer",), "history_process", wrong, "history_process is ") for wrong in (-1, 1.5, "0", True, None)),
    (READERS, "tags", "\ud800", r"tags is '\ud800', which cannot be encoded as UTF-8."),
    (("group", "push"), "room", "\ud800", r"The machine room cannot be encoded as UTF-8; it is '\ud800'."),
    (("shared",), "where", "\ud800", r"where is '\ud800', which cannot be encoded as UTF-8."),
    (tuple(CLIENTS), "ca", "\ud800", r"`ca` is '\ud800': give the path"),
    (("push",), "listener", None, "listener is None: give a function that is called with each message."),
    (("push",), "on_error", 5, "on_error is 5: give a function of an error"),
    (("responder",), "handler", 5, "handler is 5: give a function that is called with each request."),
    (("responder",), "handler", None, "handler is None: give a function"),
    (("responder",), "reply_topics", 5, "reply_topics is 5: give a list of names."),
    *((("consumer",), "start", wrong, f"start is {wrong!r}: {START}") for wrong in (1.5, True, None, -1, "end", [7])),
    (("consumer",), "start", date(2026, 1, 2), f"start is datetime.date(2026, 1, 2): {START}"),
    *(
        (("group", "push", "responder"), "start", wrong, f"start is {wrong!r}: {GROUP_START}")
        for wrong in (1.5, True, None, 0, "end", [7])
    ),
    (("shared",), "start", 5, 'start is 5: it must be "earliest" or "latest".'),
    (
        ("push", "responder"),
        "concurrency",
        10**6,
        "concurrency is 1000000: it must be a whole number from 1 to 10,000.",
    ),
    *(
        (tuple(name for name in CLIENTS if "sync" not in name), "client_id", wrong, "client_id is ")
        for wrong in (5, "a\nb", "x" * 128, "\ud800")
    ),
    (("group",), "configured", 5, "configured is 5: give a list of pairs (topic, queue)"),
    (("group",), "configured", ["fz"], "configured has 'fz': each queue must be a pair (topic, queue)"),
    (("group",), "configured", [("f", "0")], "queue is '0': it must be a whole number, at least 0."),
    (("group",), "configured", [(5, 0)], "topic is 5: it must be the name of a topic"),
]


@pytest.mark.parametrize(
    ("client", "setting", "wrong", "text"),
    [(client, setting, wrong, text) for clients, setting, wrong, text in SETTINGS for client in clients],
)
async def test_a_wrong_setting_is_refused_at_construction(client: str, setting: str, wrong: Any, text: str) -> None:
    expected = InvalidGroupNameError if setting == "group" else InvalidArgumentError
    with pytest.raises(expected) as refused:
        CLIENTS[client](bootstrap_servers=NOWHERE, **{setting: wrong})
    assert str(refused.value).startswith(text), str(refused.value)


async def test_settings_that_are_right() -> None:
    for tags, wanted in ((["*"], None), ("*", None), (["b", "a"], {"a", "b"}), ("a || b", {"a", "b"}), ({"a"}, {"a"})):
        assert AsyncConsumer("f", bootstrap_servers=NOWHERE, tags=tags)._tags == wanted
    queues: Any = (2, np.int64(1), 2)
    assert AsyncConsumer("f", bootstrap_servers=NOWHERE, queues=queues)._only_queues == [1, 2]
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    for start in ("earliest", "latest", 0, np.int64(7), moment):
        assert checked_start(start) == start
    assert type(checked_start(np.int64(7))) is int
    for name in (None, "", "billing 7", "müller", "x" * 127):
        assert checked_client_id(name) == name
    assert checked_callable("f", print, "of text") is print
    assert checked_hook("f", None, "of text") is None
    assert checked_pairs("configured", [("f", np.int64(3)), ["g", 0]]) == [("f", 3), ("g", 0)]
    for name in CLIENTS:
        if "sync" not in name:
            CLIENTS[name](bootstrap_servers=NOWHERE, client_id="billing 7")


def test_names_of_a_wrong_type() -> None:
    for check in (validate_group_name, validate_consumed_name):
        for wrong in (None, 5, b"g"):
            with pytest.raises(InvalidGroupNameError, match="must be a str; it is "):
                check(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="machine room must be a str; it is None"):
        validate_room(None)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="Compression b'lz4' is not known"):
        Codec.named(b"lz4")  # type: ignore[arg-type]


@pytest.mark.parametrize("address", ["http://localhost:24000", "localhost/x:24000"])
def test_an_address_is_no_url(address: str) -> None:
    with pytest.raises(InvalidArgumentError, match='is not valid: write it as "host:port", without "http://"'):
        parse_addresses(address)
    assert parse_addresses("unix:/run/ledgermq.sock") == ("unix:/run/ledgermq.sock",)


def test_a_timestamp_may_be_an_integer_of_numpy() -> None:
    assert checked_timestamp(np.int64(5)) == 5  # type: ignore[arg-type]
    assert type(checked_timestamp(np.int64(5))) is int  # type: ignore[arg-type]
    for wrong in (-1, 1.5, "5", np.float64(5)):
        with pytest.raises(InvalidArgumentError, match="timestamp_ms must be milliseconds"):
            checked_timestamp(wrong)  # type: ignore[arg-type]


# -- calls


def a_reader() -> AsyncConsumer:
    """Return a consumer that counts as started, and reads no queue."""
    consumer = AsyncConsumer("f", bootstrap_servers=NOWHERE)
    consumer._client.started = True
    consumer._readers = SimpleNamespace(get=lambda _: None, in_turn=list)  # type: ignore[assignment]
    return consumer


def a_member() -> AsyncGroupConsumer:
    """Return a member of a group that counts as started, and owns no queue."""
    consumer = AsyncGroupConsumer("f", group="g", bootstrap_servers=NOWHERE)
    consumer._client.started = True
    consumer._assigned_queues = SimpleNamespace(get=lambda _: None)  # type: ignore[assignment]
    return consumer


PAIR = "each queue must be a pair (topic, queue), such as"
TIMES = "give a dict of pairs (topic, queue) and times"
CALLS: list[tuple[str, tuple[Any, ...], str]] = [
    ("pause", ("fz",), f"places has 'fz': {PAIR}"),
    ("pause", (5,), f"places has 5: {PAIR}"),
    ("pause", (("f",),), f"places has ('f',): {PAIR}"),
    ("resume", (("f", "0"),), "queue is '0': it must be a whole number, at least 0."),
    ("resume", ("fz",), f"places has 'fz': {PAIR}"),
    ("position", ("f", "0"), "queue is '0': it must be a whole number"),
    ("position", (["f"], 0), "topic is ['f']: it must be the name of a topic, as a str."),
    ("is_paused", ("f", None), "queue is None: it must be a whole number"),
    ("is_paused", ({}, 0), "topic is {}: it must be the name of a topic"),
    ("seek", ("f", "0", 0), "queue is '0': it must be a whole number"),
    ("seek", (b"f", 0, 0), "topic is b'f': it must be the name of a topic"),
    ("offsets_for_times", (5,), f"times is 5: {TIMES}"),
    ("offsets_for_times", ([("f", 0)],), f"times is [('f', 0)]: {TIMES}"),
    ("offsets_for_times", ({"fz": 5},), f"times has 'fz': {PAIR}"),
    ("offsets_for_times", ({("f", "0"): 5},), "queue is '0': it must be a whole number"),
    ("offsets_for_times", ({("f", 0): "5"},), "A time must be milliseconds since 1970; it is '5'."),
    ("offsets_for_times", ({("f", 0): True},), "A time must be milliseconds since 1970; it is True."),
]


@pytest.mark.parametrize("make", [a_reader, a_member])
@pytest.mark.parametrize(("method", "wrong", "text"), CALLS)
async def test_a_wrong_argument_of_a_call_is_refused(
    make: Callable[[], Any], method: str, wrong: tuple[Any, ...], text: str
) -> None:
    async def called() -> None:
        result = getattr(make(), method)(*wrong)
        if asyncio.iscoroutine(result):
            await result

    with pytest.raises(InvalidArgumentError) as refused:
        await called()
    assert str(refused.value).startswith(text), str(refused.value)


async def test_a_wrong_offset_of_a_seek_changes_nothing() -> None:
    member = a_member()
    member._assigned_queues.get = lambda _: SimpleNamespace()  # type: ignore[assignment, method-assign, return-value]
    member._handed_out = [SimpleNamespace(topic="f", queue=0)]  # type: ignore[list-item]
    for wrong in (-1, "5", 1.5, 1 << 63):
        with pytest.raises(InvalidArgumentError, match=r"^offset is .*: it must be a whole number"):
            await member.seek("f", 0, wrong)  # type: ignore[arg-type]
    assert member._handed_out


async def test_times_may_be_integers_of_numpy() -> None:
    asked = []

    async def topic(name: str) -> Any:
        asked.append(name)
        return SimpleNamespace(shards=[])

    client: Any = SimpleNamespace(topic=topic)
    times: Any = {("f", 0): np.int64(5)}
    with pytest.raises(UnknownQueueError, match="has no queue 0"):
        await offsets_for_times(client, times)
    assert asked == ["f"]


def a_producer(**settings: Any) -> AsyncProducer[Any]:
    """Return a producer that counts as started, and knows no topic."""
    producer: AsyncProducer[Any] = AsyncProducer(NOWHERE, **settings)
    producer._client.started = True
    producer._queue_selection = SimpleNamespace(knows={}.__contains__)  # type: ignore[assignment]
    producer._client.routes = SimpleNamespace(table=RouteTable((NOWHERE,)))  # type: ignore[assignment]
    producer._plain = SimpleNamespace(join=lambda *message: False)  # type: ignore[assignment]
    producer._loop = asyncio.get_running_loop()
    return producer


async def test_a_topic_of_a_wrong_type_is_refused() -> None:
    several: list[Any] = [["f"], {}, None, 5]
    for wrong in several:
        with pytest.raises(InvalidTopicNameError, match="topic's name must be a str"):
            await a_producer().send(wrong, b"x")
        with pytest.raises(InvalidTopicNameError, match="topic's name must be a str"):
            a_producer().send_nowait(wrong, b"x")


@pytest.mark.parametrize("settings", [{}, {"encoding": "utf-8"}, {"serializer": str.encode}])
@pytest.mark.parametrize("wrong", [None, 5, OutgoingMessage(b"x"), b"one", "one", memoryview(b"one")])
async def test_one_message_is_not_many(settings: dict[str, Any], wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        await a_producer(**settings).send_many("f", wrong)
    name = type(wrong).__name__
    assert str(refused.value).startswith(f"send_many() takes an iterable of messages, and this is a {name};")


@pytest.mark.parametrize("wrong", [{b"key": b"value"}, {}])
async def test_a_mapping_is_no_list_of_messages(wrong: Any) -> None:
    """Only its keys would be sent, as values."""
    with pytest.raises(InvalidArgumentError, match=r"of this dict only the keys would be sent: give its items\(\)"):
        await a_producer().send_many("f", wrong)


@pytest.mark.parametrize("wrong", [np.int64(1), np.float64(1.5)])
async def test_a_number_of_numpy_is_no_list_of_messages(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^send_many\(\) takes an iterable of messages, and this is a "):
        await a_producer().send_many("f", wrong)


@pytest.mark.parametrize("wrong", [False, "", b"", 0])
async def test_an_empty_value_of_a_wrong_type_is_wrong_too(wrong: Any) -> None:
    for name in ("headers", "look_up_keys"):
        with pytest.raises(InvalidArgumentError, match=name):
            a_producer().send_nowait("f", b"x", key="k", **{name: wrong})


@pytest.mark.parametrize("wrong", [None, 5, "t1_handle"])
async def test_handles_are_a_list(wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^handles is .*: give a list of handles"):
        await a_producer().cancel_many(wrong)


# -- messages of groups


@pytest.mark.parametrize("wrong", [None, 5, "x", [Message(*range(10))]])
async def test_only_messages_are_finished_and_moved(wrong: Any) -> None:
    member = a_member()
    for call in (member.finish, member.holds):
        with pytest.raises(InvalidArgumentError, match=r"^messages has .*: give each message by itself"):
            call(wrong)
    with pytest.raises(InvalidArgumentError, match=r"^messages (is|has) "):
        member.finish_held([wrong])
    for moved in (member.reconsume_later, member.give_up):
        with pytest.raises(InvalidArgumentError, match=r"^message is .*: give one message that this consumer received"):
            await moved(wrong)


@pytest.mark.parametrize("client", ["group", "push", "shared", "responder"])
@pytest.mark.parametrize("wrong", ["5", -1, float("nan"), True, [5]])
async def test_a_wrong_time_limit_stops_nothing(client: str, wrong: Any) -> None:
    made = CLIENTS[client](bootstrap_servers=NOWHERE)
    for stop in (made.stop, made.close, made.aclose):
        with pytest.raises(InvalidArgumentError, match=r"^timeout_s is .*: it must be a number, at least 0\.$"):
            await stop(timeout_s=wrong)


@pytest.mark.parametrize("client", [GroupConsumer, PushConsumer, SharedConsumer, Responder])
def test_a_wrong_time_limit_closes_no_synchronous_client(client: Any) -> None:
    made = client.__new__(client)
    made._client = SimpleNamespace(stop=None)
    with pytest.raises(InvalidArgumentError, match=r"^timeout_s is 'soon': it must be a number, at least 0\.$"):
        made.close(timeout_s="soon")


def test_only_consumers_are_stopped_by_signals() -> None:
    wrong: Any = 5
    text = r"^consumers has 5, which has no stop_reading\(\)"
    with pytest.raises(InvalidArgumentError, match=text), stop_on_signal(wrong):
        pass


def test_a_wrong_signal_leaves_no_handler() -> None:
    before = signal.getsignal(signal.SIGTERM)
    wrong: Any = [signal.SIGTERM, 999]
    with pytest.raises(ValueError, match="signal number"), stop_on_signal(a_reader_that_stops(), signals=wrong):
        pass
    assert signal.getsignal(signal.SIGTERM) == before


def a_reader_that_stops() -> Any:
    return SimpleNamespace(stop_reading=lambda: None)


# -- messages of shared groups


FIELDS = ("orders", 0, 5, 0, 0, None, b"x" * 1_000, None, (), 0)


def received() -> SharedMessage[Any]:
    made: SharedMessage[Any] = SharedMessage(*FIELDS)
    made.lease = MessageLease(0, 1, 0, 5, 7, 0)
    return made


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (None, "messages is None: give a list of received messages."),
        (5, "messages is 5: give a list of received messages."),
        ("x", "messages is 'x': give a list of received messages."),
        ([5], "messages has 5, which has no lease: give messages that this consumer received"),
        (Message(*FIELDS), "messages has "),
        ([Message(*FIELDS)], "messages has "),
    ],
)
async def test_only_received_messages_are_acknowledged(wrong: Any, text: str) -> None:
    consumer: AsyncSharedConsumer[Any] = AsyncSharedConsumer("f", group="g", bootstrap_servers=NOWHERE)
    consumer._client.started = True
    for call in (consumer.ack, consumer.nack, consumer.extend, lambda given: consumer.receive(ack=given)):
        with pytest.raises(InvalidArgumentError) as refused:
            await call(wrong)
        assert str(refused.value).startswith(text)
        assert len(str(refused.value)) < 250


def test_received_messages_are_taken_alone_and_in_lists() -> None:
    one, other = received(), received()
    assert as_list(one) == [one]
    assert as_list(iter([one, other])) == [one, other]
    assert as_list(()) == []
    with pytest.raises(InvalidArgumentError, match="no copies of them"):
        as_list(one._replace(value=b"y"))
