"""An order service with aiohttp: HTTP requests become messages, a consumer group bills them, failures are retried, and
orders that fail in every attempt end in the dead letters.

    POST /orders ──> topic of orders ──> billing ──> billed
                                           │ fails
                                           └──> again after a delay ──> dead letters ──> failed

    GET /orders/ID says waiting, billed or failed.

The service answers POST when the order is stored on a majority of the nodes. Delivery is at least once, so billing asks
first whether the order is billed already. Real services keep this state in their database, not in memory.
test_order_service.py tests this service on a cluster whose leader it kills.
"""

import asyncio
import json
import os
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from ledgermq import AsyncAdmin, AsyncConsumer, AsyncProducer, AsyncPushConsumer, Message

BOOTSTRAP = os.environ.get("LEDGERMQ_BOOTSTRAP", "127.0.0.1:9871")
RUN = int(time.time())


class PaymentServiceAwayError(Exception):
    """The payment service is not available at the moment."""


@dataclass
class OrderService:
    """The service. `topic` exists; `group` is the consumer group of billing."""

    bootstrap: str
    topic: str
    group: str
    attempts: int = 3
    # By order: "billed" or "failed".
    states: dict[str, str] = field(default_factory=dict)

    def app(self) -> web.Application:
        app = web.Application()
        app.add_routes([web.post("/orders", self.take), web.get("/orders/{id}", self.show)])
        app.cleanup_ctx.append(self.run)
        return app

    async def run(self, _: web.Application) -> AsyncIterator[None]:
        """Run the clients of the service, from its start to its end."""
        async with (
            AsyncProducer(self.bootstrap) as self.producer,
            AsyncPushConsumer(
                self.topic,
                group=self.group,
                listener=self.bill,
                max_attempts=self.attempts,
                bootstrap_servers=self.bootstrap,
            ),
            AsyncConsumer(f"%DLQ%{self.group}", bootstrap_servers=self.bootstrap) as dead_letters,
        ):
            watching = asyncio.create_task(self.watch(dead_letters))
            yield
            watching.cancel()

    async def take(self, request: web.Request) -> web.Response:
        order = {"id": uuid.uuid4().hex, **await request.json()}
        await self.producer.send(self.topic, json.dumps(order).encode(), key=order["customer"])
        return web.json_response({"id": order["id"]}, status=202)

    async def show(self, request: web.Request) -> web.Response:
        return web.json_response({"state": self.states.get(request.match_info["id"], "waiting")})

    async def bill(self, message: Message) -> None:
        """Bill one order. An exception means: deliver the order again later."""
        order = json.loads(message.value)
        if order["id"] in self.states:
            return
        if order["amount"] <= 0:
            raise ValueError(f"order {order['id']} has the amount {order['amount']}")
        if order["customer"] == "unlucky" and message.attempt == 1:
            raise PaymentServiceAwayError
        self.states[order["id"]] = "billed"

    async def watch(self, dead_letters: AsyncConsumer) -> None:
        async for message in dead_letters:
            self.states[json.loads(message.value)["id"]] = "failed"


async def main() -> None:
    service = OrderService(BOOTSTRAP, f"service-orders-{RUN}", f"service-billing-{RUN}", attempts=2)
    async with AsyncAdmin(BOOTSTRAP) as admin:
        await admin.create_topic(service.topic, queues=4)
    orders = [("ada", 30), ("unlucky", 20), ("grace", 0)]
    states = []
    async with TestServer(service.app()) as server, ClientSession(server.make_url("/")) as client:
        for customer, amount in orders:
            async with client.post("/orders", json={"customer": customer, "amount": amount}) as answer:
                number = (await answer.json())["id"]
            states.append(await state_at_the_end(client, number))
            print(f"the order of {customer} is {states[-1]}")
    assert states == ["billed", "billed", "failed"]


async def state_at_the_end(client: ClientSession, number: str) -> str:
    while True:
        async with client.get(f"/orders/{number}") as answer:
            state = str((await answer.json())["state"])
        if state != "waiting":
            return state
        await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(main())
