"""Takes the pictures of the console that the documents show.

    make console-pictures          two minutes; writes docs/console/*.png

A real cluster works while the pictures are taken: messages are sent and consumed, some fail, and a node is killed.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from playwright.sync_api import expect

from ledgermq import Admin, Producer, SharedConsumer
from tests.cluster.console.browser import ConsoleBrowser, launched
from tests.cluster.console.conftest import ConsoleCluster

OUT = Path(__file__).resolve().parents[3] / "docs" / "console"
WINDOW = {"width": 1280, "height": 860}
QUEUES = 4


def fill(cluster: ConsoleCluster, stopped: threading.Event) -> None:
    """Send and consume until `stopped`. Some messages fail, wait for a delivery time, or stay leased."""
    with Admin(cluster.bootstrap, profile="") as admin, Producer(cluster.bootstrap, profile="") as producer:
        for topic in ("orders", "payments", "shipments"):
            admin.create_topic(topic, queues=QUEUES)
        admin.create_consumer_group("packing", mode="shared")
        for number in range(40):
            producer.send("orders", f"remind customer {number}".encode(), delay=timedelta(minutes=5 + number))
        with SharedConsumer("orders", group="packing", bootstrap_servers=cluster.bootstrap, profile="") as consumer:
            began = 0
            while not stopped.wait(0.1):
                for topic, count in (("orders", 40), ("payments", 60), ("shipments", 25)):
                    producer.send_many(topic, [order(began + place) for place in range(count)])
                began += 60
                messages = consumer.receive(100, max_wait_ms=100)
                consumer.nack(messages[49::50])
                consumer.ack([message for place, message in enumerate(messages) if place % 50 != 49 and place % 9])


def order(number: int) -> bytes:
    return f'{{"order": {number}, "customer": "c-{number % 97}", "total": {number % 400}.50}}'.encode()


@contextmanager
def filled(cluster: ConsoleCluster) -> Iterator[None]:
    """Keep the cluster at work in the `with` block."""
    stopped = threading.Event()
    filling = threading.Thread(target=fill, args=(cluster, stopped))
    filling.start()
    try:
        yield
    finally:
        stopped.set()
        filling.join()


def take(window: ConsoleBrowser, cluster: ConsoleCluster) -> None:
    """Take all pictures. The cluster page is taken while a node is dead, and its messages come again."""
    page = window.open("/console/")
    expect(page.locator(".verdict")).to_contain_text("healthy")
    page.wait_for_timeout(25_000)
    leader = cluster.leader()
    victim = next(node for node in (3, 2) if node != leader)
    cluster.kill(victim)
    expect(page.locator(".replica-silent").first).to_be_visible()
    page.wait_for_timeout(3_000)
    picture(window, "cluster")
    window.open("/console/shards/0")
    page.wait_for_timeout(1_500)
    picture(window, "shard")
    cluster.restart(victim)
    for name, path in (
        ("group", "/console/groups/packing"),
        ("plan", f"/console/operations/plan/remove?node={victim}"),
    ):
        window.open(path)
        page.wait_for_timeout(2_500)
        picture(window, name)


def picture(window: ConsoleBrowser, name: str) -> None:
    window.page.screenshot(path=OUT / f"{name}.png")
    print(f"wrote {OUT / name}.png")


def main() -> int:
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ledgermq-pictures-") as directory, launched() as browser:
        cluster = ConsoleCluster(Path(directory) / "cluster", secure=False)
        window = ConsoleBrowser(browser, cluster.url(1), viewport=WINDOW)
        try:
            with filled(cluster):
                take(window, cluster)
        finally:
            window.close()
            cluster.purge()
    return 0


if __name__ == "__main__":
    sys.exit(main())
