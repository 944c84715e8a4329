"""The official RocketMQ clients, unmodified, in processes of their own: what each promises to its users.

The same tests run against Apache's servers (targets.py), which proves that the programs and the tests are right.
"""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.rocketmq.exchange import Exchange, in_ms
from tests.rocketmq.programs import ClientProgram, ProgramError, Told
from tests.rocketmq.targets import Target

pytestmark = [pytest.mark.real, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

# A whole second: some clients send delivery times in seconds.
_DELAY_S = 4
_TOPIC_NOT_FOUND = 40402


async def can(program: ClientProgram, what: str) -> None:
    """Skip the test if this client does not offer `what`."""
    if what not in (await program.call("hello"))["can"]:
        pytest.skip(f"the {program.language} client cannot do this: {what}")


async def test_a_message_arrives_with_its_tag_keys_and_properties(program: ClientProgram, target: Target) -> None:
    topic, group = await target.topic(), await target.group()
    async with Exchange(program, target) as exchange:
        producer, consumer = await exchange.producer(topic), await exchange.simple(topic, group)
        sent = await exchange.send(
            producer,
            topic,
            "größer",
            tag="paid",
            keys=["order-1", "order-2"],
            properties={"region": "eu", "weight": "7"},
        )
        (message,) = await exchange.take(consumer, 1)
        assert message["body"] == "größer"
        assert message["topic"] == topic
        assert message["message_id"] == sent["message_id"]
        assert message["tag"] == "paid"
        assert message["keys"] == ["order-1", "order-2"]
        assert message["properties"].items() >= {"region": "eu", "weight": "7"}.items()
        assert message["attempt"] == 1
        await exchange.nothing_comes(consumer)


async def test_clients_of_several_topics_start_and_reach_each(program: ClientProgram, target: Target) -> None:
    topics, group = [await target.topic() for _ in range(4)], await target.group()
    async with Exchange(program, target) as exchange:
        for _ in range(3):  # a later client finds open connections, and its settings come sooner
            producer = await exchange.producer(*topics)
        for topic in topics:
            await exchange.send(producer, topic, f"for {topic}")
        if program.language == "rust":  # a receive of this client names one topic
            received = [await exchange.take(await exchange.simple(topic, group), 1) for topic in topics]
        else:
            received = [await exchange.take(await exchange.simple(topics[0], group, *topics[1:]), len(topics), 90)]
    assert {found["body"] for messages in received for found in messages} == {f"for {topic}" for topic in topics}


async def test_a_property_may_have_any_printable_name(program: ClientProgram, target: Target) -> None:
    topic, group = await target.topic(), await target.group()
    properties = {"%": "percent", "%MESSAGE_ID": "x", "||": "or", "&&": "and", "名": "name", "a b": "space"}
    async with Exchange(program, target) as exchange:
        producer, consumer = await exchange.producer(topic), await exchange.simple(topic, group)
        sent = await exchange.send(producer, topic, "named", properties=properties)
        (message,) = await exchange.take(consumer, 1)
    assert message["message_id"] == sent["message_id"]
    assert message["properties"].items() >= properties.items()


async def test_messages_of_one_group_arrive_in_order(program: ClientProgram, target: Target) -> None:
    topic, group = await target.topic("FIFO"), await target.group(ordered=True)
    async with Exchange(program, target) as exchange:
        producer, consumer = await exchange.producer(topic), await exchange.simple(topic, group)
        sent = await program.call("flood", client=producer, topic=topic, prefix="f", count=60, groups=4)
        assert sent["errors"] == []
        messages = await exchange.take(consumer, 60)
    assert len(messages) == 60
    for each in range(4):
        numbers = [int(found["body"].split("-")[1]) for found in messages if found["message_group"] == f"f-{each}"]
        assert numbers == list(range(each, 60, 4))


async def test_a_delayed_message_arrives_at_its_time_and_not_before(program: ClientProgram, target: Target) -> None:
    topic, group = await target.topic("DELAY"), await target.group()
    async with Exchange(program, target) as exchange:
        producer, consumer = await exchange.producer(topic), await exchange.simple(topic, group)
        due_ms = in_ms(_DELAY_S) // 1000 * 1000
        await exchange.send(producer, topic, "later", deliver_at_ms=due_ms)
        (message,) = await exchange.take(consumer, 1)
    assert message["body"] == "later"
    assert time.time() * 1000 >= due_ms


async def test_a_recalled_message_never_arrives(program: ClientProgram, target: Target) -> None:
    await can(program, "recall")
    topic, group = await target.topic("DELAY"), await target.group()
    async with Exchange(program, target) as exchange:
        producer, consumer = await exchange.producer(topic), await exchange.simple(topic, group)
        due_ms = in_ms(_DELAY_S)
        recalled = await exchange.send(producer, topic, "recalled", deliver_at_ms=due_ms)
        await exchange.send(producer, topic, "kept", deliver_at_ms=due_ms)
        answer = await program.call("recall", client=producer, topic=topic, recall_handle=recalled["recall_handle"])
        assert answer["message_id"] == recalled["message_id"]
        assert [found["body"] for found in await exchange.take(consumer, 1)] == ["kept"]
        await exchange.nothing_comes(consumer)


async def test_a_committed_transaction_is_seen_and_one_rolled_back_is_not(
    program: ClientProgram, target: Target
) -> None:
    topic, group = await target.topic("TRANSACTION"), await target.group()
    async with Exchange(program, target) as exchange:
        producer = await exchange.producer(topic, check="unknown")
        consumer = await exchange.simple(topic, group)
        await program.call("transaction", client=producer, topic=topic, body="no", end="rollback")
        sent = await program.call("transaction", client=producer, topic=topic, body="yes", end="commit")
        (message,) = await exchange.take(consumer, 1)
        assert (message["body"], message["message_id"]) == ("yes", sent["message_id"])
        await exchange.nothing_comes(consumer)


@pytest.mark.parametrize("answer", ["commit", "rollback"])
async def test_an_open_transaction_is_ended_by_the_answer_to_a_check(
    program: ClientProgram, target: Target, answer: str
) -> None:
    topic, group = await target.topic("TRANSACTION"), await target.group()
    async with Exchange(program, target) as exchange:
        producer, consumer = await exchange.producer(topic, check=answer), await exchange.simple(topic, group)
        before = len(program.events)
        await program.call("transaction", client=producer, topic=topic, body=f"left to {answer}", end="leave")

        def checked() -> bool:
            return any(told.get("body") == f"left to {answer}" for told in program.events[before:])

        if answer == "commit":
            (message,) = await exchange.take(consumer, 1, deadline_s=90)
            assert message["body"] == "left to commit"
            assert checked()
        else:
            await program.wait_for(checked, "the server asks for the outcome", 90)
            await exchange.nothing_comes(consumer)


async def test_a_producer_answers_many_checks_at_the_same_time(program: ClientProgram, target: Target) -> None:
    topic, group = await target.topic("TRANSACTION"), await target.group()
    async with Exchange(program, target) as exchange:
        producer, consumer = await exchange.producer(topic, check="commit"), await exchange.simple(topic, group)
        bodies = [f"open {number}" for number in range(100)]

        async def leave_open(body: str) -> None:
            await program.call("transaction", client=producer, topic=topic, body=body, end="leave")

        await asyncio.gather(*map(leave_open, bodies))
        messages = await exchange.take(consumer, len(bodies), deadline_s=120)
        assert {found["body"] for found in messages} == set(bodies)
        await program.call("transaction", client=producer, topic=topic, body="after the checks", end="commit")
        (message,) = await exchange.take(consumer, 1)
        assert message["body"] == "after the checks"


async def test_a_push_consumer_handles_each_message_once(program: ClientProgram, target: Target) -> None:
    await can(program, "push")
    topic, group = await target.topic(), await target.group()
    async with Exchange(program, target) as exchange:
        producer, consumer = await exchange.producer(topic), await exchange.push(topic, group)
        sent = await program.call("flood", client=producer, topic=topic, prefix="p", count=100, in_flight=16)
        assert sent["errors"] == []
        await program.wait_for(lambda: len(program.consumed(consumer)) >= 100, "100 messages are handled")
        bodies = [found["body"] for found in program.consumed(consumer)]
        assert sorted(bodies) == sorted(f"p-{number}" for number in range(100))


async def test_a_push_consumer_gets_a_failed_message_again(program: ClientProgram, target: Target) -> None:
    await can(program, "push")
    topic, group = await target.topic(), await target.group()
    async with Exchange(program, target) as exchange:
        producer, consumer = await exchange.producer(topic), await exchange.push(topic, group, fail_times=1)
        sent = await exchange.send(producer, topic, "again")
        await program.wait_for(lambda: program.consumed(consumer), "the message is handled at last", 90)
        (message,) = program.consumed(consumer)
    assert (message["message_id"], message["attempt"]) == (sent["message_id"], 2)


async def test_an_ordered_push_consumer_handles_each_group_in_order(program: ClientProgram, target: Target) -> None:
    await can(program, "push")
    topic, group = await target.topic("FIFO"), await target.group(ordered=True)
    async with Exchange(program, target) as exchange:
        producer, consumer = await exchange.producer(topic), await exchange.push(topic, group)
        sent = await program.call("flood", client=producer, topic=topic, prefix="o", count=60, groups=3)
        assert sent["errors"] == []
        await program.wait_for(lambda: len(program.consumed(consumer)) >= 60, "60 messages are handled", 90)
        messages = program.consumed(consumer)
    for each in range(3):
        numbers = [int(found["body"].split("-")[1]) for found in messages if found["message_group"] == f"o-{each}"]
        assert numbers == list(range(each, 60, 3))


async def test_a_message_that_is_not_acknowledged_comes_again(program: ClientProgram, target: Target) -> None:
    topic, group = await target.topic(), await target.group()
    async with Exchange(program, target) as exchange:
        producer, consumer = await exchange.producer(topic), await exchange.simple(topic, group)
        await exchange.send(producer, topic, "again")
        first: list[dict[str, object]] = []
        while not first:
            first = await exchange.receive(consumer)
        (second,) = await exchange.take(consumer, 1, deadline_s=60)
        assert (first[0]["attempt"], second["attempt"]) == (1, 2)
        assert first[0]["message_id"] == second["message_id"]


async def test_a_changed_invisible_duration_counts(program: ClientProgram, target: Target) -> None:
    await can(program, "invisible")
    topic, group = await target.topic(), await target.group()
    async with Exchange(program, target) as exchange:
        producer, consumer = await exchange.producer(topic), await exchange.simple(topic, group)
        await exchange.send(producer, topic, "soon")
        first: list[dict[str, object]] = []
        while not first:
            first = await exchange.receive(consumer, invisible_s=300)
        await program.call("invisible", client=consumer, handle=first[0]["handle"], seconds=3)
        (second,) = await exchange.take(consumer, 1, deadline_s=60)
        assert (second["body"], second["attempt"]) == ("soon", 2)
        await exchange.nothing_comes(consumer)


async def test_a_message_that_always_fails_ends_with_the_dead_letters(program: ClientProgram, target: Target) -> None:
    topic, group = await target.topic(), await target.group(retries=1)
    async with Exchange(program, target) as exchange:
        producer = await exchange.producer(topic)
        sent = await exchange.send(producer, topic, "poison")
        if "push" in (await program.call("hello"))["can"]:
            await exchange.push(topic, group, fail_times=100)
        else:
            consumer = await exchange.simple(topic, group)
            attempts: list[int] = []
            while attempts != [1, 2]:
                attempts += [found["attempt"] for found in await exchange.receive(consumer)]
            for _ in range(3):  # until the second lease has ended
                await exchange.nothing_comes(consumer)
        # The topic of the dead letters is there when the first one is.
        message = await _dead_letter(exchange, f"%DLQ%{group}", await target.group())
        assert (message["body"], message["message_id"]) == ("poison", sent["message_id"])


async def _dead_letter(exchange: Exchange, topic: str, group: str) -> Told:
    deadline = time.monotonic() + 90
    while True:
        try:
            consumer = await exchange.simple(topic, group)
            return (await exchange.take(consumer, 1))[0]
        except ProgramError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(1)


@pytest.mark.parametrize("told", [{"tag": "a||b"}, {"sql": "price > 5 AND region = 'eu'"}], ids=["tags", "SQL"])
async def test_a_filter_lets_only_its_messages_through(
    program: ClientProgram, target: Target, told: dict[str, str]
) -> None:
    topic, group = await target.topic(), await target.group()
    async with Exchange(program, target) as exchange:
        producer, consumer = await exchange.producer(topic), await exchange.simple(topic, group, **told)
        for body, tag, price, region in (
            ("first", "a", "6", "eu"),
            ("wrong", "c", "6", "us"),
            ("second", "b", "7", "eu"),
            ("also wrong", "d", "4", "eu"),
        ):
            await exchange.send(producer, topic, body, tag=tag, properties={"price": price, "region": region})
        bodies = {found["body"] for found in await exchange.take(consumer, 2)}
        assert bodies == {"first", "second"}
        await exchange.nothing_comes(consumer)


async def test_a_topic_that_does_not_exist_is_refused(program: ClientProgram, target: Target) -> None:
    async with Exchange(program, target) as exchange:
        with pytest.raises(ProgramError) as found:
            await _send_to_a_missing_topic(exchange)
    # Java and Node.js tell only that they did not start.
    assert found.value.code in (_TOPIC_NOT_FOUND, None), found.value


async def _send_to_a_missing_topic(exchange: Exchange) -> None:
    producer = await exchange.producer("no-such-topic")
    await exchange.send(producer, "no-such-topic", "lost")
