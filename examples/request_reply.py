"""A service that other services ask for prices: requests and replies over ordinary topics.

    requester ── "umbrella" ──> topic of requests ──> one of two responders (a consumer group)
    requester <── "12 EUR" ─── topic of replies <───────┘

A request that no responder can answer ends with the reason, and a request without a reply ends with a time-out.
"""

import os
import statistics
import time

from ledgermq import Admin, Message, Requester, Responder, errors

BOOTSTRAP = os.environ.get("LEDGERMQ_BOOTSTRAP", "127.0.0.1:9871")
STARTED = int(time.time())
REQUESTS, REPLIES = f"price-requests-{STARTED}", f"price-replies-{STARTED}"
PRICES = {b"umbrella": b"12 EUR", b"coat": b"89 EUR"}


def price_of(request: Message) -> bytes:
    return PRICES[request.value]  # a KeyError is told to the requester


def main() -> None:
    with Admin(BOOTSTRAP) as admin:
        admin.create_topic(REQUESTS, queues=2)
        admin.create_topic(REPLIES, queues=1)

    with Requester(BOOTSTRAP, reply_topic=REPLIES) as requester:
        try:
            requester.request(REQUESTS, b"coat", timeout_ms=500)
        except errors.RequestTimeoutError as error:
            print(error)

        first, second = (
            Responder(REQUESTS, group="prices", handler=price_of, reply_topics=REPLIES, bootstrap_servers=BOOTSTRAP)
            for _ in range(2)
        )
        with first, second:
            reply = requester.request(REQUESTS, b"umbrella")
            print(f"an umbrella costs {reply.value.decode()}")
            try:
                requester.request(REQUESTS, b"moon")
            except errors.ResponderFailedError as error:
                print(error)

            times_ms = []
            for _ in range(100):
                begin = time.perf_counter()
                assert requester.request(REQUESTS, b"coat").value == b"89 EUR"
                times_ms.append((time.perf_counter() - begin) * 1000)
            print(f"100 requests, one after the other: median {statistics.median(times_ms):.1f} ms")


if __name__ == "__main__":
    main()
