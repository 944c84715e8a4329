"""An aiohttp service that takes orders over HTTP, sends them, and consumes them in the background.

The producer and the consumer start and stop with the service (`cleanup_ctx`). When the service stops, the consumer
finishes the orders in hand, and the producer waits for the messages that it has accepted. The script calls its own
service and stops it.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator

from aiohttp import ClientSession, web

from ledgermq import AsyncAdmin, AsyncProducer, AsyncPushConsumer, Message

BOOTSTRAP = os.environ.get("LEDGERMQ_BOOTSTRAP", "127.0.0.1:9871")
TOPIC = f"web-{time.time_ns():x}"
PRODUCER = web.AppKey("producer", AsyncProducer)
BILLED: web.AppKey[list[int]] = web.AppKey("billed", list)


async def queue(app: web.Application) -> AsyncIterator[None]:
    """Run the clients while the service runs."""

    async def bill(message: Message) -> None:
        app[BILLED].append(json.loads(message.value)["order"])

    async with (
        AsyncProducer(BOOTSTRAP) as producer,
        AsyncPushConsumer(TOPIC, group=f"{TOPIC}-billing", listener=bill, bootstrap_servers=BOOTSTRAP),
    ):
        app[PRODUCER] = producer
        yield


async def order(request: web.Request) -> web.Response:
    receipt = await request.app[PRODUCER].send(TOPIC, await request.read(), key=request.match_info["customer"])
    return web.json_response({"queue": receipt.queue, "offset": receipt.offset}, status=202)


def service() -> web.Application:
    app = web.Application()
    app[BILLED] = []
    app.cleanup_ctx.append(queue)
    app.router.add_post("/orders/{customer}", order)
    return app


async def main() -> None:
    async with AsyncAdmin(BOOTSTRAP) as admin:
        await admin.create_topic(TOPIC)
    app = service()
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    async with ClientSession() as client:
        for number in range(3):
            async with client.post(f"http://127.0.0.1:{port}/orders/kim", json={"order": number}) as response:
                print("accepted", number, await response.json())
    async with asyncio.timeout(30):
        while len(app[BILLED]) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await runner.cleanup()
    billed = app[BILLED]
    print("billed", sorted(billed))


asyncio.run(main())
