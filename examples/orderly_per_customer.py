"""The events of each customer are processed in order, although two consumers share the work and some events fail.

The key of an event is the customer's name, so all events of one customer are in one queue. An orderly listener
receives the messages of a queue one after another. A failed message is delivered again before the next message of its
queue is delivered. The consumers continue with other queues meanwhile.
"""

import os
import random
import threading
import time
from collections import defaultdict

from ledgermq import Admin, Message, Producer, PushConsumer

BOOTSTRAP = os.environ.get("LEDGERMQ_BOOTSTRAP", "127.0.0.1:9871")
TOPIC = f"customer-events-{int(time.time())}"
CUSTOMERS, EVENTS = 6, 20

seen: defaultdict[str, list[int]] = defaultdict(list)
failures = 0
all_seen = threading.Event()


def listener(message: Message) -> None:
    global failures
    assert message.key is not None
    customer = message.key.decode()
    if random.random() < 0.1:
        failures += 1
        raise RuntimeError(f"{customer}: this attempt fails")
    seen[customer].append(int(message.value))
    if sum(map(len, seen.values())) >= CUSTOMERS * EVENTS:
        all_seen.set()


def consumer() -> PushConsumer:
    return PushConsumer(
        TOPIC, group=f"{TOPIC}-ledger", listener=listener, orderly=True, suspend_ms=50, bootstrap_servers=BOOTSTRAP
    )


def main() -> None:
    with Admin(BOOTSTRAP) as admin, Producer(BOOTSTRAP) as producer:
        admin.create_topic(TOPIC, queues=4)
        for event in range(EVENTS):
            for customer in range(CUSTOMERS):
                producer.send_nowait(TOPIC, b"%d" % event, key=f"customer {customer}")
        producer.flush()
    with consumer(), consumer():
        assert all_seen.wait(60), seen
    for name, events in sorted(seen.items()):
        assert list(dict.fromkeys(events)) == list(range(EVENTS)), (name, events)
    print(f"{CUSTOMERS} customers, {EVENTS} events each, all in order; {failures} failures on the way")


if __name__ == "__main__":
    main()
