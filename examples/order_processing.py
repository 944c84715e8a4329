"""Order processing: what fails comes again after a while, and lies with the dead letters in the end.

Of ten orders one fails once, because a service is away for a moment, and one cannot be processed at all. Both wait
elsewhere: no other order waits for them. With the delays that a cluster has by itself this takes 10 seconds.
"""

import asyncio
import os
import time

from ledgermq import AsyncAdmin, AsyncConsumer, AsyncProducer, AsyncPushConsumer, Message

BOOTSTRAP = os.environ.get("LEDGERMQ_BOOTSTRAP", "127.0.0.1:9871")
RUN = int(time.time())
ORDERS, BILLING = f"orders-{RUN}", f"billing-{RUN}"


class PaymentServiceAwayError(Exception):
    """Try again later."""


processed: list[str] = []
all_processed = asyncio.Event()


async def bill(message: Message) -> None:
    order = message.value.decode()
    if order == "order 3" and message.attempt == 1:
        raise PaymentServiceAwayError
    if order == "order 7":
        raise ValueError("an order without a customer")
    processed.append(order)
    if len(processed) == 9:
        all_processed.set()
    print(f"billed {order} (attempt {message.attempt})")


async def main() -> None:
    async with AsyncAdmin(BOOTSTRAP) as admin, AsyncProducer(BOOTSTRAP) as producer:
        await admin.create_topic(ORDERS, queues=4)
        for number in range(10):
            await producer.send(ORDERS, f"order {number}".encode(), key=f"customer {number % 3}")

        async with AsyncPushConsumer(ORDERS, group=BILLING, listener=bill, max_attempts=2, bootstrap_servers=BOOTSTRAP):
            async with AsyncConsumer(f"%DLQ%{BILLING}", bootstrap_servers=BOOTSTRAP) as dead_letters:
                dead = await anext(dead_letters)
            await all_processed.wait()
        print(f"given up: {dead.value.decode()}, which came from {dead.origin}")
        print(f"9 of 10 orders are billed; see also: ledgermq dlq list {BILLING}")
    assert sorted(processed) == [f"order {number}" for number in range(10) if number != 7]
    assert dead.value == b"order 7"


if __name__ == "__main__":
    asyncio.run(main())
