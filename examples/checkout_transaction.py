"""An order is stored in a database, and two topics learn of it: all of that, or nothing.

    half messages ──> database transaction ──> commit          consumers get both
                  ──> an error             ──> rollback        no consumer ever sees them
                  ──> the process dies     ──> the cluster asks another process, which looks into the database

The checker runs in any process of the producer group. Here a second producer has it, and the first one "dies" before
its commit. The database is a dictionary.
"""

import os
import time

from ledgermq import Admin, CheckedTransaction, Consumer, Producer
from ledgermq.types import CheckResult

BOOTSTRAP = os.environ.get("LEDGERMQ_BOOTSTRAP", "127.0.0.1:9871")
RUN = int(time.time())
ORDERS, INVOICES, GROUP = f"orders-{RUN}", f"invoices-{RUN}", f"checkout-{RUN}"

database: dict[str, str] = {}


def checker(asked: CheckedTransaction) -> CheckResult:
    """Look into the database for the order of a transaction whose process is silent."""
    order = (asked.messages[0].key or b"").decode()
    found: CheckResult = "commit" if order in database else "rollback"
    print(f"the cluster asks about {order}: {found}")
    return found


def check_out(producer: Producer, order: str, *, fails: bool = False) -> None:
    with producer.transaction(ORDERS, group=GROUP) as transaction:
        transaction.send(b"placed", key=order)
        transaction.send(b"to pay", topic=INVOICES, key=order)
        if fails:
            raise ValueError(f"{order} has no address")
        database[order] = "placed"


def main() -> None:
    with Admin(BOOTSTRAP) as admin, Producer(BOOTSTRAP) as other:
        for topic in (ORDERS, INVOICES):
            admin.create_topic(topic, queues=2)
        other.answer_checks(GROUP, checker)
        with Producer(BOOTSTRAP) as producer:
            check_out(producer, "order-1")
            try:
                check_out(producer, "order-2", fails=True)
            except ValueError as error:
                print(f"rolled back: {error}")
            # This process stores the order, and dies before the commit.
            unfinished = producer.transaction(ORDERS, group=GROUP)
            unfinished.send(b"placed", key="order-3")
            database["order-3"] = "placed"

        with Consumer(ORDERS, bootstrap_servers=BOOTSTRAP) as consumer:
            seen = {(next(consumer).key or b"").decode() for _ in range(2)}
        print(f"consumers see {', '.join(sorted(seen))}")
        assert seen == {"order-1", "order-3"}
        assert admin.transactions(GROUP) == []


if __name__ == "__main__":
    main()
