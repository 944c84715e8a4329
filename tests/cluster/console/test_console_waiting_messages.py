"""Timers and transactions in a real browser: they are listed, shown, cancelled, committed and rolled back."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from playwright.sync_api import expect

from ledgermq import Admin, AsyncProducer, Consumer, Producer
from tests.cluster.console.conftest import ConsoleCluster, Visit

pytestmark = pytest.mark.real


def create(cluster: ConsoleCluster, topic: str) -> None:
    with Admin(cluster.bootstrap, profile="") as admin:
        admin.create_topic(topic, queues=1)


def prepare(cluster: ConsoleCluster, topic: str, group: str, *values: bytes) -> str:
    """Leave a transaction open, as a program does that dies, and return its id."""

    async def work() -> str:
        async with AsyncProducer(cluster.bootstrap, profile="") as producer:
            transaction = producer.transaction(topic, group=group)
            await transaction.__aenter__()
            for value in values:
                await transaction.send(value, key="\x07<b>")
            return transaction.id or ""

    return cluster.beside(lambda: asyncio.run(work()))


def test_timers_are_listed_shown_and_cancelled(open_cluster: ConsoleCluster, visit: Visit) -> None:
    create(open_cluster, "later")
    create(open_cluster, "other")
    with Producer(open_cluster.bootstrap, profile="") as producer:
        for number in range(130):
            producer.send(
                "later",
                b"<script>alert(%d)</script>" % number,
                key=f"k{number}",
                delay=timedelta(hours=1, minutes=number),
                headers=[("h", b"\x1b")],
            )
        producer.send("other", b"\xff\x00", delay=timedelta(days=30))
    window = visit(open_cluster)
    page = window.open("/console/timers")
    expect(page.locator("main tbody tr")).to_have_count(100)
    window.check_accessible()
    page.get_by_role("link", name="Next page").click()
    expect(page.locator("main tbody tr")).to_have_count(31)
    expect(page.locator("main tbody tr").last).to_contain_text("other")
    page.get_by_label("Topic").fill("later")
    page.get_by_label("From").fill("2h")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("main tbody tr").first).to_contain_text("k0")
    page.get_by_label("From").fill("soon")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("alert")).to_contain_text("is not a time")

    window.open("/console/timers?topic=later")
    page.locator("main tbody tr a").first.click()
    expect(page.locator("main pre")).to_have_text("<script>alert(0)</script>")
    expect(page.get_by_role("region", name="Table of headers")).to_contain_text(r"\x1b")
    window.check_accessible()
    address = page.url
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.get_by_role("button", name="Cancel the message").click()
    window.open(address.removeprefix(window.base))
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Cancel the message").click()
    expect(page.get_by_role("status").last).to_contain_text("It will not be delivered.")
    with Admin(open_cluster.bootstrap, profile="") as admin:
        assert [message.key for message in admin.waiting_messages("later", limit=1)] == [b"k1"]
    window.open(address.removeprefix(window.base))
    expect(page.get_by_role("alert")).to_contain_text("No message with this handle waits")
    expect(window.open("/console/timers/x").get_by_role("alert")).not_to_be_empty()


def test_a_transaction_is_committed(open_cluster: ConsoleCluster, visit: Visit) -> None:
    create(open_cluster, "sales")
    name = prepare(open_cluster, "sales", "checkout", b"<img src=x onerror=alert(1)>")
    window = visit(open_cluster)
    page = window.open("/console/transactions?group=checkout")
    expect(page.locator("main tbody tr")).to_have_count(1)
    window.check_accessible()
    page.get_by_role("link", name=name).click()
    expect(page.locator("main pre")).to_have_text("<img src=x onerror=alert(1)>")
    expect(page.get_by_text(r"key \x07<b>")).to_be_visible()
    window.check_accessible()
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Commit").click()
    expect(page.get_by_role("status").last).to_contain_text("The transaction was committed")
    with Consumer("sales", bootstrap_servers=open_cluster.bootstrap, profile="") as consumer:
        (message,) = consumer.getmany(timeout_ms=10_000)
    assert message.value == b"<img src=x onerror=alert(1)>"


def test_a_transaction_is_rolled_back(open_cluster: ConsoleCluster, visit: Visit) -> None:
    create(open_cluster, "returns")
    name = prepare(open_cluster, "returns", "undo", b"\xff\x00" * 40)
    window = visit(open_cluster)
    page = window.open(f"/console/transactions/{name}")
    expect(page.locator("main pre")).to_contain_text("ff 00")
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.get_by_role("button", name="Roll back").click()
    with Admin(open_cluster.bootstrap, profile="") as admin:
        assert [each.id for each in admin.transactions("undo")] == [name], "the user said no"
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Roll back").click()
    expect(page.get_by_role("status").last).to_contain_text("The transaction was rolled back")
    expect(window.open("/console/transactions?group=undo").locator("main")).to_contain_text("No transactions are open")
    expect(window.open("/console/transactions/x").get_by_role("alert")).not_to_be_empty()
