"""More workers than queues: each order is leased by itself to one of five workers, although its topic has one queue.

a worker that acknowledges         the order is done
a worker that fails                another worker gets the order after a moment
a worker that hangs                another worker gets the order when the lease ends
an order that fails every time     goes to the dead letters, and holds up no other
"""

import asyncio
import os
import time
from collections import Counter

from ledgermq import AsyncAdmin, AsyncConsumer, AsyncProducer, AsyncSharedConsumer, SharedMessage

BOOTSTRAP = os.environ.get("LEDGERMQ_BOOTSTRAP", "127.0.0.1:9871")
NAME = f"orders-{int(time.time())}"
ORDERS, WORKERS, ATTEMPTS = 40, 5, 3


async def main() -> None:
    done: Counter[str] = Counter()
    failed: set[int] = set()
    all_done = asyncio.Event()
    async with AsyncAdmin(BOOTSTRAP) as admin, AsyncProducer(BOOTSTRAP) as producer:
        await admin.create_topic(NAME, queues=1)
        await admin.create_consumer_group(NAME, mode="shared", max_attempts=ATTEMPTS)
        for number in range(ORDERS):
            await producer.send(NAME, f"order {number}".encode())

    async def work(worker: str) -> None:
        async with AsyncSharedConsumer(NAME, group=NAME, bootstrap_servers=BOOTSTRAP, lease_ms=2_000) as consumer:

            async def handle(message: SharedMessage[bytes]) -> None:
                if message.value == b"order 7":
                    failed.add(message.attempt)
                elif message.value != b"order 9" or message.attempt > 1:
                    await asyncio.sleep(0.01)
                    done[worker] += 1
                if done.total() == ORDERS - 1 and ATTEMPTS in failed:
                    all_done.set()
                if message.value == b"order 7":
                    raise ValueError("this order cannot be handled")
                if message.value == b"order 9" and message.attempt == 1:
                    raise ConnectionError("the warehouse does not answer at the moment")

            listening = asyncio.create_task(consumer.consume(handle, retry_delay_ms=200))
            await all_done.wait()
            consumer.stop_reading()
            await listening

    await asyncio.gather(*(work(f"worker {number}") for number in range(WORKERS)))
    print(f"{done.total()} orders are done by {len(done)} workers: {dict(sorted(done.items()))}")

    async with AsyncSharedConsumer(NAME, group=NAME, bootstrap_servers=BOOTSTRAP) as consumer:
        await consumer.receive(max_wait_ms=1_000)
    async with AsyncConsumer(f"%DLQ%{NAME}", bootstrap_servers=BOOTSTRAP) as letters:
        letter = await anext(letters)
    print(f"{letter.value.decode()} is in the dead letters after {letter.attempt - 1} attempts")
    assert letter.value == b"order 7"
    assert done.total() == ORDERS - 1


if __name__ == "__main__":
    asyncio.run(main())
