"""One topic and three consumer groups: each group receives every message, and the members of a group share the work.

The group "billing" has two members, and the group "shipping" has one member. The group "analytics" reads only messages
tagged "paid".
"""

import asyncio
import os
import time
from collections import Counter

from ledgermq import AsyncAdmin, AsyncGroupConsumer, AsyncProducer

BOOTSTRAP = os.environ.get("LEDGERMQ_BOOTSTRAP", "127.0.0.1:9871")
RUN = int(time.time())
TOPIC = f"sales-{RUN}"
MESSAGES = 200

consumed: Counter[str] = Counter()
all_consumed = asyncio.Event()


async def consume(group: str, member: str, tags: str = "*") -> None:
    async with AsyncGroupConsumer(TOPIC, group=f"{group}-{RUN}", tags=tags, bootstrap_servers=BOOTSTRAP) as consumer:
        async for _ in consumer:
            consumed[group] += 1
            consumed[f"{group}, {member}"] += 1
            if consumed["billing"] + consumed["shipping"] + consumed["analytics"] >= 2 * MESSAGES + MESSAGES // 2:
                all_consumed.set()


async def main() -> None:
    async with AsyncAdmin(BOOTSTRAP) as admin, AsyncProducer(BOOTSTRAP) as producer:
        await admin.create_topic(TOPIC, queues=4)
        members = [
            asyncio.create_task(consume("billing", "first")),
            asyncio.create_task(consume("billing", "second")),
            asyncio.create_task(consume("shipping", "only")),
            asyncio.create_task(consume("analytics", "only", tags="paid")),
        ]
        for number in range(MESSAGES):
            await producer.send(TOPIC, b"sale %d" % number, tag="paid" if number % 2 else "open", queue=number % 4)
        async with asyncio.timeout(60):
            await all_consumed.wait()
        for group in await admin.list_consumer_groups():
            if group.name.endswith(f"-{RUN}"):
                print(f"{group.name}: members {group.members}, queues {group.queues}")
        for one in members:
            one.cancel()
        await asyncio.gather(*members, return_exceptions=True)
    for name, count in sorted(consumed.items()):
        print(f"{count:4} messages by {name}")


if __name__ == "__main__":
    asyncio.run(main())
