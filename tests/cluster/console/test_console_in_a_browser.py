"""Looks at the console in a real browser: pages of the cluster, a killed leader, logins, and what other sites try."""

from __future__ import annotations

import re
import time
import urllib.error
import urllib.request

import pytest
from playwright.sync_api import expect

from ledgermq import Admin, Producer
from tests.cluster.console.conftest import ConsoleCluster, Visit

pytestmark = pytest.mark.real

# The picture of the cluster must show a killed leader within this time.
SHOWN_S = 2.0
PHONE = {"width": 360, "height": 740}


def test_the_cluster_is_shown_live(open_cluster: ConsoleCluster, visit: Visit) -> None:
    window = visit(open_cluster)
    page = window.open("/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Cluster dev")
    expect(page.locator(".verdict")).to_contain_text("healthy")
    expect(page.locator(".replica")).to_have_count(6)
    last = page.locator("#shard-0 .replica >> nth=0 >> .number")
    before = int(last.inner_text().replace(",", ""))
    with Admin(open_cluster.bootstrap, profile="") as admin:
        admin.create_topic("live", queues=1)
    expect(last).not_to_have_text(f"{before}")
    with Producer(open_cluster.bootstrap, profile="") as producer:
        for number in range(50):
            producer.send("live", f"{number}".encode())
    expect(page.locator("#rates")).not_to_contain_text("0/s sent (0 B/s), 0/s received")
    window.check_accessible()


def test_a_shard_compares_its_replicas(open_cluster: ConsoleCluster, visit: Visit) -> None:
    window = visit(open_cluster)
    page = window.open("/console/shards/0")
    expect(page.get_by_text("The replicas agree in all")).to_be_visible()
    expect(page.locator("table.entries tbody tr").first).to_contain_text("yes")
    expect(page.locator("#timeline .lane")).to_have_count(3)
    expect(page.locator("#events")).to_contain_text("voted for node")
    window.check_accessible()
    assert window.open("/console/shards/99").get_by_role("alert").inner_text().startswith("There is no shard 99")
    assert window.open("/console/shards/x").get_by_role("alert").inner_text().startswith("shard = 'x' is no number")


def test_a_table_that_updates_keeps_its_place_and_the_focus(open_cluster: ConsoleCluster, visit: Visit) -> None:
    with Admin(open_cluster.bootstrap, profile="") as admin:
        admin.create_topic("busy", queues=1)
        shard = admin.describe_topic("busy").shards[0]
    page = visit(open_cluster, viewport=PHONE).open(f"/console/shards/{shard}")
    table = page.get_by_role("region", name="Table of replicas")
    table.focus()
    # In one step, because the stream may replace the table at any moment.
    page.evaluate("document.querySelector('.wide').scrollLeft = 80")
    before = table.inner_text()
    with Producer(open_cluster.bootstrap, profile="") as producer:
        producer.send("busy", b"news")
    expect(table).not_to_have_text(before, use_inner_text=True)
    expect(table).to_be_focused()
    assert table.evaluate("table => table.scrollLeft") == 80


@pytest.mark.parametrize(
    "path",
    ["", "shards/0", "topics", "groups", "groups/+create", "timers", "transactions", "operations", "audit"],
)
def test_pages_fit_a_phone(open_cluster: ConsoleCluster, visit: Visit, path: str) -> None:
    page = visit(open_cluster, viewport=PHONE).open(f"/console/{path}")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_a_killed_leader_is_shown_and_comes_back(open_cluster: ConsoleCluster, visit: Visit) -> None:
    leader = open_cluster.leader()
    window = visit(open_cluster, next(node for node in (1, 2, 3) if node != leader))
    page = window.open("/console/")
    shown = page.locator("#shard-0")
    expect(shown).to_contain_text(f"node {leader} leads")
    began_s = time.monotonic()
    open_cluster.kill(leader)
    expect(shown.locator(".replica-silent")).to_have_count(1)
    silent_s = time.monotonic() - began_s
    expect(shown).not_to_contain_text(f"node {leader} leads")
    expect(shown).to_contain_text("leads in term")
    assert silent_s < SHOWN_S
    expect(page.locator(".verdict")).to_contain_text("degraded")
    open_cluster.restart(leader)
    expect(shown.locator(".replica-silent")).to_have_count(0)
    expect(page.locator(".verdict")).to_contain_text("healthy")


def test_a_page_survives_a_restart_of_its_node(open_cluster: ConsoleCluster, visit: Visit) -> None:
    window = visit(open_cluster, 2)
    page = window.open("/console/")
    gone = page.locator("#connection")
    expect(gone).to_be_hidden()
    open_cluster.kill(2)
    expect(gone).to_be_visible()
    open_cluster.restart(2)
    expect(gone).to_be_hidden()
    expect(page.locator(".verdict")).to_contain_text("healthy")
    window.complaints.clear()  # the browser reports the stream that broke


def test_damage_and_its_repair_are_shown_with_file_and_entries(open_cluster: ConsoleCluster, visit: Visit) -> None:
    node = next(node for node in (1, 2, 3) if node != open_cluster.leader())
    open_cluster.kill(node)
    file = open_cluster.log_file(node, 0)
    with file.open("r+b") as log:
        log.seek(300)
        damaged = bytes([log.read(1)[0] ^ 0xFF])
        log.seek(300)
        log.write(damaged)
    open_cluster.restart(node)
    events = visit(open_cluster).open("/console/shards/0").locator("#events")
    expect(events).to_contain_text(f"node {node}: the log of shard 0 is damaged")
    expect(events).to_contain_text(
        re.compile(rf"node {node}: {file.name}: entr(y is|ies [0-9]+ to [0-9]+ are|y [0-9]+ is) repaired")
    )


def test_phones_and_dark_rooms(open_cluster: ConsoleCluster, visit: Visit) -> None:
    window = visit(open_cluster, viewport={"width": 380, "height": 800}, color_scheme="dark")
    page = window.open("/console/")
    expect(page.locator(".verdict")).to_contain_text("healthy")
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    window.check_accessible()


def test_keys_open_pages(open_cluster: ConsoleCluster, visit: Visit) -> None:
    page = visit(open_cluster).open("/console/shards/0")
    page.keyboard.press("g")
    page.keyboard.press("c")
    expect(page.get_by_role("heading", level=1)).to_have_text("Cluster dev")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()


def test_an_open_console_serves_no_other_name(open_cluster: ConsoleCluster) -> None:
    """A page of another site could bind a name of its own to 127.0.0.1."""
    address = f"{open_cluster.url(1)}/console/"
    request = urllib.request.Request(address, headers={"Host": "evil.example:80"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=5)
    assert refused.value.code == 403


def test_users_log_in_and_out(secured_cluster: ConsoleCluster, visit: Visit) -> None:
    password = secured_cluster.password
    window = visit(secured_cluster)
    page = window.open("/")
    expect(page).to_have_url(f"{window.base}/console/login")
    window.check_accessible()
    window.log_in("admin", "wrong")
    expect(page.get_by_role("alert")).to_contain_text("the user or the password is wrong")
    window.log_in("admin", password)
    expect(page.get_by_role("heading", level=1)).to_have_text("Cluster dev")
    (cookie,) = window.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["secure"]) == (True, "Strict", True)
    expect(page.locator(".verdict")).to_contain_text("healthy")
    (cookie,) = window.context.cookies()
    page.get_by_role("button", name="Log out").click()
    expect(page).to_have_url(f"{window.base}/console/login")
    window.open("/console/")
    expect(page).to_have_url(f"{window.base}/console/login")
    window.context.add_cookies([{"name": cookie["name"], "value": cookie["value"], "url": f"{window.base}/console"}])
    window.open("/console/")
    expect(page).to_have_url(f"{window.base}/console/login")


def test_a_login_survives_a_restart_of_its_node(secured_cluster: ConsoleCluster, visit: Visit) -> None:
    password = secured_cluster.password
    window = visit(secured_cluster, 3)
    window.log_in("admin", password)
    page = window.page
    expect(page.locator(".verdict")).to_contain_text("healthy")
    secured_cluster.kill(3)
    secured_cluster.restart(3)
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Cluster dev")
    window.complaints.clear()  # the browser reports the stream that broke


def test_a_user_without_the_right_sees_no_cluster(secured_cluster: ConsoleCluster, visit: Visit) -> None:
    with Admin(secured_cluster.bootstrap, **secured_cluster.client_options) as admin:
        admin.add_user("reader", "a password of the test")
        admin.grant("reader", "subscribe", "topic:news-*")
    window = visit(secured_cluster)
    window.log_in("reader", "a password of the test")
    page = window.page
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
    links = page.get_by_role("navigation", name="Pages").get_by_role("link")
    assert links.all_inner_texts() == ["Topics", "Groups", "Timers", "Transactions"]
    expect(window.open("/console/shards/0").get_by_role("alert")).to_have_text(
        "User reader has no right to describe the cluster."
    )
    page.get_by_role("link", name="To the first page").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")


def test_a_page_whose_user_has_a_new_password_goes_to_the_login(secured_cluster: ConsoleCluster, visit: Visit) -> None:
    with Admin(secured_cluster.bootstrap, **secured_cluster.client_options) as admin:
        admin.add_user("looker", "the first password")
        admin.grant("looker", "describe", "cluster")
        window = visit(secured_cluster)
        window.log_in("looker", "the first password")
        expect(window.page.locator(".verdict")).to_contain_text("healthy")
        admin.rotate_user("looker", "the second password")
    expect(window.page).to_have_url(f"{window.base}/console/login", timeout=15_000)
    window.complaints.clear()  # the browser reports the stream that was refused
