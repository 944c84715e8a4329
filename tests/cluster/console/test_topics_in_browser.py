"""Looks at the pages of topics in a real browser: 1,000 topics, rates, changes, deletion, and the rights of a user."""

from __future__ import annotations

import asyncio
import time

import pytest
from playwright.sync_api import expect

from ledgermq import Admin, AsyncAdmin, GroupConsumer, Producer
from tests.cluster.console.conftest import ConsoleCluster, Visit

pytestmark = pytest.mark.real

# A page with 1,000 topics is there after this time, on a busy machine.
PAGE_S = 3.0


async def create_many(bootstrap: str, count: int) -> None:
    async with AsyncAdmin(bootstrap, profile="") as admin:
        gate = asyncio.Semaphore(16)

        async def create(number: int) -> None:
            async with gate:
                await admin.create_topic(f"many-{number:04}", queues=1)

        await asyncio.gather(*(create(number) for number in range(count)))


def test_a_thousand_topics_are_listed_and_found(open_cluster: ConsoleCluster, visit: Visit) -> None:
    open_cluster.beside(lambda: asyncio.run(create_many(open_cluster.bootstrap, 1_000)))
    window = visit(open_cluster)
    began_s = time.monotonic()
    page = window.open("/console/topics")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(50)
    assert time.monotonic() - began_s < PAGE_S
    expect(page.get_by_text("1,000 topics, page 1 of 20")).to_be_visible()
    page.get_by_role("link", name="next page").first.click()
    expect(rows.first).to_contain_text("many-0050")
    page.get_by_label("Name contains").fill("0777")
    page.get_by_role("button", name="Show").click()
    expect(rows).to_have_count(1)
    window.check_accessible()
    rows.first.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Topic many-0777")


def test_a_topic_is_created_changed_and_deleted(open_cluster: ConsoleCluster, visit: Visit) -> None:
    window = visit(open_cluster)
    page = window.open("/console/topics")
    form = page.get_by_role("region", name="Create a topic")
    page.get_by_role("link", name="Create a topic").press("Enter")
    expect(form.get_by_label("Name")).to_be_focused()
    page.keyboard.type("made-here")
    form.get_by_label("Queues").fill("2")
    form.get_by_label("Type").select_option("fifo")
    form.get_by_role("button", name="Create").click()
    expect(page.get_by_text("fifo, 2 queues in 2 shards, 0 messages kept")).to_be_visible()

    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_label("Queues").last.fill("5")
    page.get_by_role("button", name="Add queues").click()
    expect(page.get_by_text("fifo, 5 queues")).to_be_visible()
    page.get_by_label("Type").select_option("normal")
    page.get_by_role("button", name="Change the type").click()
    expect(page.get_by_text("normal, 5 queues")).to_be_visible()

    with Producer(open_cluster.bootstrap, profile="") as producer:
        for number in range(7):
            producer.send("made-here", b"x", queue=number % 5)
    with GroupConsumer("made-here", group="readers", bootstrap_servers=open_cluster.bootstrap, profile="") as consumer:
        got = 0
        while got < 7:
            got += len(consumer.getmany(7 - got, timeout_ms=20_000))
        consumer.acknowledge()

    page.get_by_role("link", name="Delete this topic").click()
    expect(page.get_by_text("7 messages in 5 queues are lost")).to_be_visible()
    expect(page.get_by_text("Group readers reads this topic")).to_be_visible()
    window.check_accessible()
    page.get_by_label("Type the name").fill("made-ther")
    page.get_by_role("button", name="Delete the topic").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was deleted")
    page.get_by_label("Type the name").fill("made-here")
    page.get_by_role("button", name="Delete the topic").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
    assert window.open("/console/topics/made-here").get_by_role("alert").inner_text().startswith("There is no topic")


def test_the_rates_of_a_topic_move(open_cluster: ConsoleCluster, visit: Visit) -> None:
    with Admin(open_cluster.bootstrap, profile="") as admin:
        admin.create_topic("busy", queues=1)
        admin.hold_log("keep-it", ttl_ms=60_000)
    window = visit(open_cluster)
    page = window.open("/console/topics/busy")
    expect(page.locator("#rates")).to_contain_text("0/s sent")
    expect(page.get_by_text("the hold keep-it").first).to_be_visible()
    with Producer(open_cluster.bootstrap, profile="") as producer:
        for number in range(200):
            producer.send("busy", f"{number}".encode())
            time.sleep(0.01)
    expect(page.locator("#rates")).not_to_contain_text("0/s sent (0 B/s)")
    chart = page.locator("#rates img")
    assert chart.evaluate("image => image.complete && image.naturalWidth > 0")
    window.check_accessible()
    list_page = window.open("/console/topics?sort=sent&q=busy")
    expect(list_page.locator("tbody tr")).to_have_count(1)


def test_a_user_sees_and_changes_only_what_it_may(secured_cluster: ConsoleCluster, visit: Visit) -> None:
    with Admin(secured_cluster.bootstrap, **secured_cluster.client_options) as admin:
        admin.create_topic("orders-eu", queues=1)
        admin.create_topic("payroll", queues=1)
        admin.add_user("ana", "a long password of ana")
        admin.grant("ana", "subscribe", "topic:orders-*")
    window = visit(secured_cluster)
    window.log_in("ana", "a long password of ana")
    page = window.open("/console/topics")
    expect(page.get_by_role("link", name="orders-eu")).to_be_visible()
    expect(page.get_by_text("payroll")).to_have_count(0)
    expect(page.get_by_role("heading", name="Create a topic")).to_have_count(0)
    proof = page.locator("input[name=proof]").first.input_value()
    page = window.open("/console/topics/orders-eu")
    expect(page.get_by_role("heading", name="Change")).to_have_count(0)
    assert window.open("/console/topics/payroll").get_by_role("alert").inner_text().startswith("There is no topic")
    assert window.open("/console/topics/orders-eu/delete").get_by_role("alert").is_visible()
    forms: list[tuple[str, dict[str, str | float | bool]]] = [
        ("/topics", {"name": "orders-new", "queues": "1"}),
        ("/topics/orders-eu/queues", {"queues": "3"}),
        ("/topics/orders-eu/type", {"type": "fifo"}),
        ("/topics/orders-eu/delete", {"name": "orders-eu"}),
    ]
    for path, form in forms:
        answer = window.context.request.post(f"{window.base}/console{path}", form={**form, "proof": proof})
        assert answer.status == 403, path
        assert "has no right to" in answer.text()
        unproven = window.context.request.post(f"{window.base}/console{path}", form=form)
        assert unproven.status == 403
        assert "does not belong to this login" in unproven.text()
    with Admin(secured_cluster.bootstrap, **secured_cluster.client_options) as admin:
        assert [(topic.name, topic.queues, topic.type) for topic in admin.list_topics() if topic.name[0] != "%"] == [
            ("orders-eu", 1, "mixed"),
            ("payroll", 1, "mixed"),
        ]
        admin.grant("ana", "create", "topic:orders-*")
    page = window.open("/console/topics")
    expect(page.get_by_role("heading", name="Create a topic")).to_be_visible()
