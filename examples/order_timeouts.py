"""Orders that are not paid in time are given up: a message with a delivery time is the alarm clock of an order.

    order  ──> a message waits in the topic of time-outs
    paid   ──> the message is cancelled, and never delivered
    unpaid ──> the message is delivered at its time, and the order is given up

A payment can arrive at the moment of the delivery. Then `cancel` returns False, and the alarm of a paid order is
delivered. So the consumer looks whether the order is paid. Real services keep this state in their database.
"""

import os
import time
from datetime import timedelta

from ledgermq import Admin, Consumer, Producer

BOOTSTRAP = os.environ.get("LEDGERMQ_BOOTSTRAP", "127.0.0.1:9871")
TOPIC = f"order-timeouts-{int(time.time())}"
TIME_TO_PAY = timedelta(seconds=2)


def main() -> None:
    with Admin(BOOTSTRAP) as admin, Producer(BOOTSTRAP) as producer:
        admin.create_topic(TOPIC, queues=2)
        # By order: the handle of its alarm. A service stores the handle with the order.
        alarms = {
            order: producer.send(TOPIC, order.encode(), key=order, delay=TIME_TO_PAY).handle
            for order in ("order-1", "order-2", "order-3")
        }
        waiting = admin.waiting_messages(TOPIC)
        print(f"{len(waiting)} orders wait for their payment, the first until {waiting[0].deliver_at:%H:%M:%S} UTC")

        paid = {"order-2"}
        if producer.cancel(alarms["order-2"]):
            print("order-2 was paid in time: its alarm is cancelled")

        given_up = set()
        with Consumer(TOPIC, bootstrap_servers=BOOTSTRAP) as consumer:
            for message in consumer:
                order = message.value.decode()
                if order not in paid:
                    given_up.add(order)
                    print(f"{order} was not paid until {message.deliver_at:%H:%M:%S} UTC: given up")
                if given_up == set(alarms) - paid:
                    break
        assert given_up == {"order-1", "order-3"}
        assert not producer.cancel(alarms["order-1"]), "its alarm was delivered"


if __name__ == "__main__":
    main()
