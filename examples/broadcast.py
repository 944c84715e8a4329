"""A broadcast: every instance of a service receives all price updates, and continues at its stored offset after a
restart.

Two instances receive every message. One instance is stopped, misses some messages, and starts again under the same
name. The cluster has stored the offset of the stopped instance, so the restarted instance receives exactly the
messages that it missed.
"""

import asyncio
import os
import time

from ledgermq import AsyncAdmin, AsyncProducer, AsyncPushConsumer, Message

BOOTSTRAP = os.environ.get("LEDGERMQ_BOOTSTRAP", "127.0.0.1:9871")
RUN = int(time.time())
TOPIC = f"prices-{RUN}"
GROUP = f"caches-{RUN}"


class Cache:
    """One instance of the service, which keeps the latest prices in memory. The name of an instance must be unique,
    and must not change at a restart."""

    def __init__(self, instance: str) -> None:
        self.prices: dict[bytes, bytes] = {}
        self.updates = 0
        self.updated = asyncio.Event()
        self.consumer = AsyncPushConsumer(
            TOPIC, group=GROUP, broadcast=True, instance=instance, listener=self.update, bootstrap_servers=BOOTSTRAP
        )

    async def update(self, message: Message) -> None:
        assert message.key is not None
        self.prices[message.key] = message.value
        self.updates += 1
        self.updated.set()

    async def has_seen(self, updates: int) -> None:
        async with asyncio.timeout(30):
            while self.updates < updates:
                self.updated.clear()
                await self.updated.wait()


async def publish(producer: AsyncProducer, prices: range) -> None:
    for price in prices:
        await producer.send(TOPIC, b"%d" % price, key=f"article-{price % 10}")


async def main() -> None:
    async with AsyncAdmin(BOOTSTRAP) as admin, AsyncProducer(BOOTSTRAP) as producer:
        await admin.create_topic(TOPIC, queues=4)
        east, west = Cache("east"), Cache("west")
        async with east.consumer:
            async with west.consumer:
                await publish(producer, range(40))
                await asyncio.gather(east.has_seen(40), west.has_seen(40))
                print(f"both instances have received 40 updates and know {len(east.prices)} prices")
            await publish(producer, range(40, 50))
            await east.has_seen(50)
            again = Cache("west")
            async with again.consumer:
                await again.has_seen(10)
                print(f"west is running again and has received the {again.updates} updates that it had missed")
        for one in await admin.list_consumer_groups():
            if one.name.startswith(f"{GROUP}@"):
                print(f"{one.name}: {one.strategy}, {one.queues} queues, {one.lag} messages behind")


if __name__ == "__main__":
    asyncio.run(main())
