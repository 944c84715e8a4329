"""Stop consumers with SIGTERM, as Kubernetes, systemd and Ctrl-C do: no message is lost, and none is delivered twice.

Three workers consume one topic after another, each in another style. Each gets SIGTERM while it is busy, finishes the
message in hand, acknowledges it and leaves the consumer group, so that the next worker continues with the next message.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time

from ledgermq import Admin, AsyncPushConsumer, GroupConsumer, Message, Producer, stop_on_signal

BOOTSTRAP = os.environ.get("LEDGERMQ_BOOTSTRAP", "127.0.0.1:9871")
TOPIC = f"stopping-{time.time_ns():x}"
GROUP = f"{TOPIC}-workers"
MESSAGES = 300
seen: list[int] = []


def work(message: Message) -> None:
    time.sleep(0.002)  # the work
    seen.append(int(message.value))
    if len(seen) % 40 == 0:
        os.kill(os.getpid(), signal.SIGTERM)  # somebody stops this process


def script() -> None:
    with GroupConsumer(TOPIC, group=GROUP, bootstrap_servers=BOOTSTRAP) as consumer, stop_on_signal(consumer):
        for message in consumer:
            work(message)


async def asyncio_service() -> None:
    async def listener(message: Message) -> None:
        await asyncio.to_thread(work, message)

    async with AsyncPushConsumer(TOPIC, group=GROUP, listener=listener, bootstrap_servers=BOOTSTRAP) as consumer:
        with stop_on_signal(consumer):
            await consumer.wait_closed()


def threads() -> None:
    def iterate(consumer: GroupConsumer) -> None:
        for message in consumer:
            work(message)

    consumers = [GroupConsumer(TOPIC, group=GROUP, bootstrap_servers=BOOTSTRAP) for _ in range(2)]
    workers = [threading.Thread(target=iterate, args=[consumer]) for consumer in consumers]
    with stop_on_signal(*consumers):  # signals arrive in the main thread
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    for consumer in consumers:
        consumer.close()


with Admin(BOOTSTRAP) as admin, Producer(BOOTSTRAP) as producer:
    admin.create_topic(TOPIC, queues=4)
    for queue in range(4):
        producer.send_many(TOPIC, [b"%d" % value for value in range(queue, MESSAGES, 4)], queue=queue)

script()
print(f"a script stopped after {len(seen)} messages")
asyncio.run(asyncio_service())
print(f"an asyncio service stopped after {len(seen)} messages")
threads()
print(f"two threads stopped after {len(seen)} messages")
with GroupConsumer(TOPIC, group=GROUP, bootstrap_servers=BOOTSTRAP) as rest:
    while len(seen) < MESSAGES and (messages := rest.getmany(timeout_ms=10_000)):
        seen.extend(int(message.value) for message in messages)
assert sorted(seen) == list(range(MESSAGES)), "a message is missing or was delivered twice"
print(f"all {MESSAGES} messages were delivered once")
