"""A running consumer group is reset to an earlier time, and consumes all messages sent since that time again.

A reset is useful after a bug in a consumer was fixed: the group processes the messages again that were sent since the
bug was deployed.
"""

import os
import time
from datetime import UTC, datetime

from ledgermq import Admin, GroupConsumer, Producer

BOOTSTRAP = os.environ.get("LEDGERMQ_BOOTSTRAP", "127.0.0.1:9871")
RUN = int(time.time())
TOPIC, GROUP = f"measurements-{RUN}", f"averages-{RUN}"


def read(consumer: GroupConsumer, count: int) -> list[int]:
    values: list[int] = []
    while len(values) < count:
        values += [int(message.value) for message in consumer.getmany(count - len(values), timeout_ms=60_000)]
    return sorted(values)


def main() -> None:
    with Admin(BOOTSTRAP) as admin, Producer(BOOTSTRAP) as producer:
        admin.create_topic(TOPIC, queues=2)
        with GroupConsumer(TOPIC, group=GROUP, bootstrap_servers=BOOTSTRAP) as consumer:
            for value in range(10):
                producer.send(TOPIC, b"%d" % value)
            assert read(consumer, 10) == list(range(10))

            deployed = datetime.now(UTC)  # the time at which the bug was deployed
            time.sleep(0.01)  # append times are whole milliseconds
            for value in range(10, 16):
                producer.send(TOPIC, b"%d" % value)
            assert read(consumer, 6) == list(range(10, 16))

            for one in admin.reset_offsets(GROUP, deployed, dry_run=True):
                print(f"queue {one.queue}: the offset would be reset from {one.before} to {one.after}")
            admin.reset_offsets(GROUP, deployed)
            again = read(consumer, 6)
            print(f"consumed again: {again}")
            assert again == list(range(10, 16))


if __name__ == "__main__":
    main()
