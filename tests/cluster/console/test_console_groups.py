"""Consumer groups in a real browser: the list, a group that works, resets with a plan, and groups that come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from ledger.v1 import consumer_group_pb2
from ledgermq import Admin, AsyncAdmin, GroupConsumer, Producer, SharedConsumer
from tests.cluster.console.conftest import ConsoleCluster, Visit

pytestmark = pytest.mark.real

HOSTILE = '\u202e\x07<img src=x onerror="alert(1)">'


@pytest.fixture
def admin(open_cluster: ConsoleCluster) -> Iterator[Admin]:
    with Admin(open_cluster.bootstrap, profile="") as admin:
        yield admin


@pytest.fixture(scope="module", autouse=True)
def orders(open_cluster: ConsoleCluster) -> None:
    """A topic with two queues of ten messages."""
    with Admin(open_cluster.bootstrap, profile="") as admin:
        admin.create_topic("orders", queues=2)
    with Producer(open_cluster.bootstrap, profile="") as producer:
        for number in range(20):
            producer.send("orders", b"%d" % number, queue=number % 2)


def offsets(admin: Admin, group: str) -> list[int | None]:
    return [each.offset for each in admin.describe_consumer_group(group).queues if each.topic == "orders"]


def read_all(consumer: GroupConsumer) -> None:
    """Read all messages of the topic, and acknowledge them."""
    count = 0
    while count < 20:
        count += len(consumer.getmany(timeout_ms=500))
    consumer.getmany(timeout_ms=10)  # a read finishes what was read before
    consumer.acknowledge()


def consume(cluster: ConsoleCluster, group: str) -> None:
    """Consume all messages of the topic as a member of the group, and leave the group."""
    with GroupConsumer("orders", group=group, bootstrap_servers=cluster.bootstrap, profile="") as consumer:
        read_all(consumer)


def accept(page: Page) -> list[str]:
    """Say yes to questions of the page. Return the list to which the questions are added."""
    asked: list[str] = []

    def answer(dialog: object) -> None:
        asked.append(dialog.message)  # type: ignore[attr-defined]
        dialog.accept()  # type: ignore[attr-defined]

    page.on("dialog", answer)
    return asked


def test_a_group_is_shown_live(open_cluster: ConsoleCluster, visit: Visit) -> None:
    window = visit(open_cluster)
    with GroupConsumer(
        "orders", group="billing", bootstrap_servers=open_cluster.bootstrap, profile="", client_id="<i>till-1</i>"
    ) as consumer:
        consumer.wait_assigned()
        page = window.open("/console/groups/billing")
        expect(page.locator("#summary")).to_contain_text("20 messages")
        expect(page.locator("#members")).to_contain_text("<i>till-1</i>")
        expect(page.locator("#members")).to_contain_text("orders 0-1")
        expect(page.locator("#queues tbody tr")).to_have_count(2)
        window.check_accessible()
        read_all(consumer)
        expect(page.locator("#summary")).to_contain_text("0 messages")
    expect(page.locator("#summary")).to_contain_text("no members at the moment")
    page = window.open("/console/groups")
    expect(page.locator("#groups")).to_contain_text("billing")
    window.check_accessible()


def test_a_shared_group_shows_its_leases(open_cluster: ConsoleCluster, admin: Admin, visit: Visit) -> None:
    admin.create_consumer_group("mailing", mode="shared", order="key", max_attempts=3)
    window = visit(open_cluster, color_scheme="dark", viewport={"width": 400, "height": 900})
    with SharedConsumer("orders", group="mailing", bootstrap_servers=open_cluster.bootstrap, profile="") as consumer:
        taken = consumer.receive(4, lease_ms=60_000)
        page = window.open("/console/groups/mailing")
        summary = page.locator("#summary")
        expect(summary).to_contain_text(f"{len(taken)} messages; the first lease ends in")
        expect(summary).to_contain_text("1 consumer connected")
        expect(summary).to_contain_text("1 of 3")
        window.check_accessible()
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        consumer.nack(taken)
        expect(summary).not_to_contain_text("the first lease ends in")


def test_offsets_are_reset_after_their_plan(open_cluster: ConsoleCluster, admin: Admin, visit: Visit) -> None:
    consume(open_cluster, "replaying")
    window = visit(open_cluster)
    page = window.open("/console/groups/replaying")
    page.get_by_role("link", name="Reset offsets").click()
    page.get_by_label("an offset of one topic").check()
    page.get_by_label("Offset", exact=True).fill("4")
    page.get_by_role("button", name="Show the plan").click()
    expect(page.get_by_role("alert")).to_contain_text("name the topic")
    page.get_by_label("Topic (").fill("orders")
    page.get_by_label("Queues of").fill("1")
    page.get_by_role("button", name="Show the plan").click()
    expect(page.get_by_text("1 of 1 queues change.")).to_contain_text("6 messages are delivered again")
    window.check_accessible()
    assert offsets(admin, "replaying") == [10, 10], "a plan changes nothing"

    page.once("dialog", lambda dialog: dialog.dismiss())
    page.get_by_role("button", name="Reset the offsets").click()
    assert offsets(admin, "replaying") == [10, 10], "the user said no"
    asked = accept(page)
    page.get_by_role("button", name="Reset the offsets").click()
    expect(page.get_by_role("status").last).to_contain_text("6 are delivered again")
    assert asked == ["Reset 1 queues of replaying? 0 messages are skipped, 6 are delivered again."]
    assert offsets(admin, "replaying") == [10, 4]

    window.open("/console/groups/replaying/reset?to=time&time=1970-01-02")
    expect(page.get_by_text("2 of 2 queues change.")).to_contain_text("14 messages are delivered again")
    window.open("/console/groups/replaying/reset?to=latest")
    expect(page.get_by_text("1 of 2 queues change.")).to_contain_text("6 messages are skipped")


def test_members_continue_at_new_offsets(open_cluster: ConsoleCluster, admin: Admin, visit: Visit) -> None:
    with GroupConsumer("orders", group="working", bootstrap_servers=open_cluster.bootstrap, profile="") as consumer:
        consumer.wait_assigned()
        read_all(consumer)
        page = visit(open_cluster).open("/console/groups/working/reset?to=earliest")
        expect(page.get_by_text("They need not stop.")).to_be_visible()
        accept(page)
        page.get_by_role("button", name="Reset the offsets").click()
        expect(page.get_by_role("status").last).to_contain_text("20 are delivered again")
        again = 0
        while again < 20:
            again += len(consumer.getmany(timeout_ms=500))


def test_a_group_is_created_and_deleted(open_cluster: ConsoleCluster, admin: Admin, visit: Visit) -> None:
    window = visit(open_cluster)
    page = window.open("/console/groups")
    page.get_by_role("link", name="Create a group").click()
    window.check_accessible()
    page.get_by_label("Name").fill("no spaces")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("alert")).to_contain_text("is not a valid consumer group name")
    page.get_by_label("Name").fill("new")
    page.get_by_label("Mode").select_option("key")
    page.get_by_label("Attempts").fill("5")
    page.get_by_role("button", name="Continue").click()
    expect(page.locator("main")).to_contain_text("handed out 5 times without success")
    assert "new" not in [group.name for group in admin.list_consumer_groups()], "the plan changes nothing"
    window.check_accessible()
    page.get_by_role("button", name="Create new").click()
    expect(page.get_by_role("status").last).to_have_text("The group was created.")
    described = admin.describe_consumer_group("new")
    assert (described.mode, described.order, described.max_attempts) == ("shared", "key", 5)

    page.get_by_role("link", name="Delete the group").click()
    window.check_accessible()
    accept(page)
    page.get_by_role("button", name="Delete new").click()
    expect(page.get_by_role("status").last).to_have_text("The group was deleted.")
    assert "new" not in [group.name for group in admin.list_consumer_groups()]


def test_a_group_with_members_is_not_deleted(open_cluster: ConsoleCluster, visit: Visit) -> None:
    with GroupConsumer("orders", group="busy", bootstrap_servers=open_cluster.bootstrap, profile="") as consumer:
        consumer.wait_assigned()
        page = visit(open_cluster).open("/console/groups/busy/delete")
        expect(page.locator(".refused")).to_contain_text("Stop its consumers first")
        expect(page.get_by_role("button")).to_have_count(0)


def test_hundreds_of_groups_are_searched(open_cluster: ConsoleCluster, visit: Visit) -> None:
    async def create() -> None:
        async with AsyncAdmin(open_cluster.bootstrap, profile="") as admin:
            await asyncio.gather(
                *(admin.create_consumer_group(f"many-{number:03}", mode="shared") for number in range(300))
            )

    open_cluster.beside(lambda: asyncio.run(create()))
    window = visit(open_cluster)
    page = window.open("/console/groups?find=MANY")
    expect(page.locator("#groups tbody tr")).to_have_count(50)
    expect(page.locator("#groups")).to_contain_text("Page 1 of 6")
    page.get_by_role("link", name="Next page").click()
    expect(page.locator("#groups tbody tr").first).to_contain_text("many-050")
    page.get_by_label("Name contains").fill("many-29")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#groups tbody tr")).to_have_count(10)
    window.check_accessible()


def test_hostile_names_of_clients_are_only_text(open_cluster: ConsoleCluster, visit: Visit) -> None:
    async def join() -> None:
        async with AsyncAdmin(open_cluster.bootstrap, profile="") as admin:
            topic = await admin.describe_topic("orders")
            request = consumer_group_pb2.JoinRequest(
                shard=0,
                consumer_group="hostile",
                member="&lt;b&gt;<script>alert(1)</script>",
                client_id=HOSTILE,
                room="</td><h1>room</h1>\x1b[31m",
                strategy="average",
                session_timeout_ms=60_000,
                subscriptions=[consumer_group_pb2.Subscription(topic_id=topic.topic_id, queues=2)],
            )
            await admin._client.call(request.shard, lambda stub, seconds: stub.Join(request, timeout=seconds))

    open_cluster.beside(lambda: asyncio.run(join()))
    page = visit(open_cluster).open("/console/groups/hostile")
    row = page.locator("#members tbody tr")
    expect(row).to_contain_text(r'\u202e\x07<img src=x onerror="alert(1)">')
    expect(row).to_contain_text("&lt;b&gt;<script>alert(1)</script>")
    expect(row).to_contain_text(r"</td><h1>room</h1>\x1b[31m")
    assert page.locator("main img, main script, td h1").count() == 0


def test_wrong_addresses_are_refused(open_cluster: ConsoleCluster, visit: Visit) -> None:
    window = visit(open_cluster)
    for path in (
        "/console/groups/nobody",
        "/console/groups/a%20b",
        "/console/groups/%3Cscript%3E",
        "/console/groups/nobody/reset?to=earliest",
        "/console/groups/billing/dead-letters?from=x",
        "/console/groups?page=-1",
    ):
        page = window.open(path)
        expect(page.get_by_role("alert")).not_to_be_empty()
        assert "The console failed" not in page.content(), path


def test_a_group_is_shown_while_a_leader_dies(open_cluster: ConsoleCluster, visit: Visit) -> None:
    consume(open_cluster, "patient")
    leader = open_cluster.leader()
    window = visit(open_cluster, next(node for node in (1, 2, 3) if node != leader))
    page = window.open("/console/groups/patient")
    expect(page.locator("#summary")).to_contain_text("0 messages")
    open_cluster.kill(leader)
    with Producer(open_cluster.bootstrap, profile="") as producer:
        for number in range(6):
            producer.send("orders", b"more", queue=number % 2)
    expect(page.locator("#summary")).to_contain_text("6 messages", timeout=20_000)
    expect(page.locator("#trouble")).to_be_empty()
    open_cluster.restart(leader)
