"""Orders in a database and messages about them: both or none, also if the program dies in between.

an order that is stored                  its messages are committed: billing and shipping get one each
an order that the database refuses       its messages are rolled back: nobody ever gets them
a program that dies before the commit    after 6 s the cluster asks another program of the producer group, which looks
                                         into the database and answers
"""

import asyncio
import os
import sqlite3
import time

from ledgermq import AsyncAdmin, AsyncConsumer, AsyncProducer, CheckedTransaction
from ledgermq.types import CheckResult

BOOTSTRAP = os.environ.get("LEDGERMQ_BOOTSTRAP", "127.0.0.1:9871")
NOW = int(time.time())
BILLING, SHIPPING, GROUP = f"billing-{NOW}", f"shipping-{NOW}", f"checkout-{NOW}"


def store(database: sqlite3.Connection, order: str) -> None:
    with database:
        database.execute("INSERT INTO orders VALUES (?)", (order,))


async def main() -> None:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE orders (id TEXT PRIMARY KEY)")
    asked = []

    async def checker(transaction: CheckedTransaction) -> CheckResult:
        order = (transaction.messages[0].key or b"").decode()
        asked.append(order)
        found = database.execute("SELECT 1 FROM orders WHERE id = ?", (order,)).fetchone()
        return "commit" if found else "rollback"

    async with AsyncAdmin(BOOTSTRAP) as admin:
        for topic in (BILLING, SHIPPING):
            await admin.create_topic(topic, queues=1)

    async with AsyncProducer(BOOTSTRAP) as shop:
        for order in ("order 1", "order 2", "order 1"):  # the database refuses the second "order 1"
            try:
                async with shop.transaction(BILLING, group=GROUP, checker=checker) as transaction:
                    await transaction.send(b"bill it", key=order)
                    await transaction.send(b"ship it", key=order, topic=SHIPPING)
                    store(database, order)
            except sqlite3.IntegrityError as error:
                print(f"{order} is rolled back: {error}")

        # This program stores the order and never commits.
        unfinished = shop.transaction(BILLING, group=GROUP)
        await unfinished.send(b"bill it", key="order 3")
        store(database, "order 3")

    print("the shop is gone, and another program of the group answers the check")
    async with AsyncProducer(BOOTSTRAP) as other:
        other.answer_checks(GROUP, checker)
        async with AsyncConsumer(BILLING, bootstrap_servers=BOOTSTRAP) as billing:
            billed = [(await anext(billing)).key for _ in range(3)]
    async with AsyncConsumer(SHIPPING, bootstrap_servers=BOOTSTRAP) as shipping:
        shipped = [message.key for message in await shipping.getmany(timeout_ms=2_000)]
    print(f"billing got {billed}, shipping got {shipped}; the cluster asked for {asked}")
    assert billed == [b"order 1", b"order 2", b"order 3"]
    assert shipped == [b"order 1", b"order 2"]
    assert asked == ["order 3"]


if __name__ == "__main__":
    asyncio.run(main())
