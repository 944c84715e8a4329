"""Dead letters in a real browser: their contents are only text, and they are sent again."""

from __future__ import annotations

import asyncio

import pytest
from playwright.sync_api import Page, expect

from ledgermq import Admin, AsyncGroupConsumer, Consumer, Producer
from tests.cluster.console.conftest import ConsoleCluster, Visit

pytestmark = pytest.mark.real

MIB = 1 << 20


def give_up(cluster: ConsoleCluster, topic: str, group: str, values: list[bytes]) -> None:
    """Send the messages to a new topic with one queue, and give all of them up as a member of the group."""
    with Admin(cluster.bootstrap, profile="") as admin:
        admin.create_topic(topic, queues=1)
    with Producer(cluster.bootstrap, profile="") as producer:
        for value in values:
            producer.send(topic, value, key="<b>k</b>", tag="t", headers=[("<i>", b"\x1b<u>")])

    async def work() -> None:
        consumer = AsyncGroupConsumer(topic, group=group, bootstrap_servers=cluster.bootstrap, profile="")
        async with consumer:
            count = 0
            while count < len(values):
                for message in await consumer.getmany():
                    await consumer.give_up(message)
                    count += 1

    cluster.beside(lambda: asyncio.run(work()))


def values_of(cluster: ConsoleCluster, topic: str) -> list[bytes]:
    with (
        Admin(cluster.bootstrap, profile="") as admin,
        Consumer(topic, bootstrap_servers=cluster.bootstrap, profile="") as consumer,
    ):
        (queue,) = admin.describe_topic(topic).offsets
        found: list[bytes] = []
        while len(found) < queue.end_offset:
            found += [message.value for message in consumer.getmany(timeout_ms=1_000)]
        return found


def accept(page: Page) -> None:
    page.on("dialog", lambda dialog: dialog.accept())


def test_hostile_contents_are_only_text(open_cluster: ConsoleCluster, visit: Visit) -> None:
    large = b"<script>alert(1)</script>" + b"x" * (4 * MIB - 4_096)
    values = [b"<img src=x onerror=alert(1)>", b"\xff\xfe\x00" * 40, "‮gpj.exe\x07".encode(), large, b""]
    give_up(open_cluster, "hostile", "unlucky", values)
    window = visit(open_cluster)
    page = window.open("/console/groups/unlucky/dead-letters")
    expect(page.locator("main tbody tr")).to_have_count(5)
    window.check_accessible()
    texts = page.locator("main tbody tr td:last-child").all_inner_texts()
    assert texts[0] == "<img src=x onerror=alert(1)>"
    assert texts[1].startswith(r"\xff\xfe\x00")
    assert texts[2] == r"\u202egpj.exe\x07"
    assert len(texts[3]) <= 120
    assert page.locator("main img, main script").count() == 0
    page.locator("main tbody tr a").nth(1).click()
    expect(page.locator("#value")).to_contain_text("00000000  ff fe 00")
    expect(page.locator("main")).to_contain_text("unlucky")


def test_chosen_letters_and_then_all_are_sent_again(open_cluster: ConsoleCluster, visit: Visit) -> None:
    values = [b"letter %d" % number for number in range(70)]
    give_up(open_cluster, "payments", "paying", values)
    window = visit(open_cluster)
    page = window.open("/console/groups/paying/dead-letters")
    accept(page)
    expect(page.locator("main tbody tr")).to_have_count(50)
    page.get_by_role("link", name="Next page").click()
    expect(page.locator("main tbody tr")).to_have_count(20)
    page.get_by_role("checkbox").nth(0).check()
    page.get_by_role("checkbox").nth(19).check()
    page.get_by_role("button", name="Resend the chosen ones").click()
    expect(page.get_by_role("status").first).to_have_text("2 dead letters were sent again to payments.")
    assert values_of(open_cluster, "payments") == [*values, b"letter 50", b"letter 69"]

    window.open("/console/groups/paying/dead-letters")
    page.get_by_role("button", name="Resend all").click()
    expect(page.locator("#resend")).to_contain_text("The last resend has sent 70 dead letters again to payments.")
    assert sorted(values_of(open_cluster, "payments")) == sorted([*values, b"letter 50", b"letter 69", *values])
    window.open("/console/groups/paying/dead-letters")
    expect(page.get_by_text("There are no dead letters here.")).to_be_visible()
    page.get_by_role("link", name="Show all").click()
    expect(page.locator("main tbody tr")).to_have_count(50)
    expect(window.open("/console/groups/paying").locator("#summary")).to_contain_text("none")


def test_letters_of_a_deleted_topic_are_left_out(open_cluster: ConsoleCluster, visit: Visit) -> None:
    give_up(open_cluster, "brief", "stranded", [b"a", b"b"])
    with Admin(open_cluster.bootstrap, profile="") as admin:
        admin.delete_topic("brief")
    page = visit(open_cluster).open("/console/groups/stranded/dead-letters")
    accept(page)
    page.get_by_role("checkbox").first.check()
    page.get_by_role("button", name="Resend the chosen ones").click()
    expect(page.get_by_role("status").first).to_contain_text("1 were left out")
    page.get_by_role("button", name="Resend all").click()
    expect(page.locator("#resend")).to_contain_text("It left out 2")


def test_nothing_is_sent_without_a_choice(open_cluster: ConsoleCluster, visit: Visit) -> None:
    give_up(open_cluster, "quiet", "calm", [b"a"])
    page = visit(open_cluster).open("/console/groups/calm/dead-letters")
    accept(page)
    page.get_by_role("button", name="Resend the chosen ones").click()
    expect(page.get_by_role("alert")).to_contain_text("Choose 1 to 50 dead letters")
    assert values_of(open_cluster, "quiet") == [b"a"]
