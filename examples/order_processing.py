"""Order processing: an order that fails is delivered again after a delay, and goes to the dead letters after its last
attempt.

One of the ten orders fails once, because the payment service is not available at that moment. Another order fails in
every attempt. A failed order waits in the retry topic, so it does not delay other orders. By default, a failed order
is delivered again 10 seconds after the first attempt.
"""

import asyncio
import os
import time

from ledgermq import AsyncAdmin, AsyncConsumer, AsyncProducer, AsyncPushConsumer, Message

BOOTSTRAP = os.environ.get("LEDGERMQ_BOOTSTRAP", "127.0.0.1:9871")
RUN = int(time.time())
ORDERS, BILLING = f"orders-{RUN}", f"billing-{RUN}"


class PaymentServiceAwayError(Exception):
    """The payment service is not available at the moment."""


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
        print(f"in the dead letters: {dead.value.decode()}, which was sent as message {dead.origin}")
        print(f"9 of 10 orders are billed; see also: ledgermq dlq list {BILLING}")
    assert sorted(processed) == [f"order {number}" for number in range(10) if number != 7]
    assert dead.value == b"order 7"


if __name__ == "__main__":
    asyncio.run(main())
