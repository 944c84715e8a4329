"""Browses messages in a real browser: by offset, time, key and tag, and messages that try to act on the page."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import pytest
from playwright.sync_api import expect

from cluster.console.pages.messages_page import PAGE_MESSAGES
from ledgermq import Admin, Producer
from tests.cluster.console.conftest import ConsoleCluster, Visit

pytestmark = pytest.mark.real

SCRIPT = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
LARGE = b'{"a":"' + b"x" * ((4 << 20) - 200) + b'"}'


@pytest.fixture(scope="module")
def orders(open_cluster: ConsoleCluster) -> str:
    """A topic with 120 messages in queue 0, and 60 with one key and one append time in queue 1. Returns its name."""
    with Admin(open_cluster.bootstrap, profile="") as admin:
        admin.create_topic("orders", queues=2)
    with Producer(open_cluster.bootstrap, profile="") as producer:
        for number in range(120):
            producer.send(
                "orders",
                json.dumps({"number": number}).encode(),
                key=f"customer-{number % 10}",
                tag="paid" if number % 40 == 39 else "new",
                headers={"trace": f"t{number}"},
                queue=0,
            )
        producer.send_many("orders", [("same", b"%d" % number) for number in range(60)])
    return "orders"


def offsets(page: object) -> list[str]:
    return page.locator("tbody tr td:nth-child(2)").all_inner_texts()  # type: ignore[attr-defined, no-any-return]


def test_messages_are_browsed_by_offset(open_cluster: ConsoleCluster, orders: str, visit: Visit) -> None:
    window = visit(open_cluster)
    page = window.open(f"/console/topics/{orders}/messages?queue=0")
    expect(page.locator("tbody tr")).to_have_count(PAGE_MESSAGES)
    last = int(offsets(page)[-1])
    assert last >= 119
    page.get_by_role("link", name="older").first.click()
    assert offsets(page)[-1] == str(last - PAGE_MESSAGES)
    page.get_by_role("link", name="oldest").first.click()
    assert offsets(page) == [str(number) for number in range(PAGE_MESSAGES)]
    page.get_by_role("link", name="newer").first.click()
    assert offsets(page)[0] == str(PAGE_MESSAGES)
    window.check_accessible()
    page.get_by_label("From offset").fill("7")
    page.get_by_role("button", name="Show").click()
    page.get_by_role("link", name="7", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Message orders:0:7")
    expect(page.locator("#value")).to_have_text('{\n  "number": 7\n}')
    expect(page.locator("dl")).to_contain_text("customer-7")
    expect(page.get_by_role("link", name="all with this key")).to_be_visible()
    expect(page.locator("dl")).to_contain_text("t7")
    page.get_by_role("link", name="hexadecimal").click()
    expect(page.locator("#value")).to_contain_text("7b 22 6e")
    page.get_by_role("link", name="newer message").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Message orders:0:8")
    window.check_accessible()


def test_messages_are_found_by_time_tag_and_key(open_cluster: ConsoleCluster, orders: str, visit: Visit) -> None:
    window = visit(open_cluster)
    page = window.open(f"/console/topics/{orders}/messages?queue=0&tag=paid")
    assert offsets(page)[:3] == ["39", "79", "119"]
    with Admin(open_cluster.bootstrap, profile="") as admin:
        time_ms = admin.get_message(orders, 0, 60).append_time_ms
        first = next(iter(admin.offsets_for_times({(orders, 0): time_ms}).values()))
    moment = datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
    page.get_by_label("Tag").fill("")
    page.get_by_label("From offset").fill("")
    page.get_by_label("or from time").fill(moment)
    page.get_by_role("button", name="Show").click()
    assert offsets(page)[0] == str(first)
    page = window.open(f"/console/topics/{orders}/messages")
    page.get_by_label("Key or look-up key").fill("customer-3")
    page.get_by_role("button", name="Find").click()
    assert offsets(page) == [str(number) for number in range(113, 0, -10)]
    window.check_accessible()
    page.get_by_label("Key or look-up key").fill("nobody")
    page.get_by_role("button", name="Find").click()
    expect(page.get_by_text("No messages here.")).to_be_visible()


def test_no_message_with_a_key_is_left_out_between_two_pages(
    open_cluster: ConsoleCluster, orders: str, visit: Visit
) -> None:
    page = visit(open_cluster).open(f"/console/topics/{orders}/messages?key=same")
    seen = page.locator("tbody code").all_inner_texts()
    assert len(seen) == PAGE_MESSAGES
    page.get_by_role("link", name="older").click()
    expect(page.locator("tbody tr")).to_have_count(60 - PAGE_MESSAGES)
    seen += page.locator("tbody code").all_inner_texts()
    assert sorted(seen, key=int) == [str(number) for number in range(60)]


def test_hostile_messages_are_shown_safely(open_cluster: ConsoleCluster, visit: Visit) -> None:
    with Admin(open_cluster.bootstrap, profile="") as admin:
        admin.create_topic("hostile", queues=1)
    with Producer(open_cluster.bootstrap, profile="") as producer:
        producer.send("hostile", SCRIPT.encode(), key=SCRIPT, tag=SCRIPT, headers={SCRIPT: SCRIPT.encode()})
        producer.send("hostile", b"\xff\xfe\x00bad\xc3", key=b"\xff\x00")
        producer.send("hostile", "\x1b[31m\u202egnp.exe".encode(), tag="\u202ex")
        producer.send("hostile", LARGE)
        producer.send("hostile", json.dumps({SCRIPT: SCRIPT}).encode())
    window = visit(open_cluster)
    for path in ("", *(f"/0/{offset}{form}" for offset in range(5) for form in ("", "?form=text", "?form=hex"))):
        page = window.open(f"/console/topics/hostile/messages{path}")
        assert "owned" not in page.title(), path
        assert page.locator("main script, main img").count() == 0
        assert not set(page.locator("main").inner_text()) & set("\x1b\x00\u202e")
    page = window.open("/console/topics/hostile/messages")
    expect(page.locator("tbody tr").first).to_contain_text(SCRIPT[:80])
    page = window.open("/console/topics/hostile/messages/0/1")
    expect(page.locator("#value")).to_contain_text("ff fe 00 62 61 64 c3")
    # The search takes text, so it cannot find a key whose bytes are no UTF-8.
    expect(page.get_by_role("link", name="all with this key")).to_have_count(0)
    page = window.open("/console/topics/hostile/messages/0/3")
    expect(page.get_by_text("Only the first 64 KiB are shown.")).to_be_visible()
    assert len(page.locator("#value").inner_text()) == 64 << 10
    window.check_accessible()
    with page.expect_download() as download:
        page.get_by_role("link", name="download the bytes").click()
    assert download.value.suggested_filename == "hostile-0-3.bin"
    assert download.value.path().read_bytes() == LARGE
    answer = window.context.request.get(f"{window.base}/console/topics/hostile/messages/0/0/raw")
    assert answer.body() == SCRIPT.encode()
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"].startswith("attachment;")


def test_the_trace_of_a_message_is_shown(open_cluster: ConsoleCluster, orders: str, visit: Visit) -> None:
    window = visit(open_cluster)
    page = window.open(f"/console/topics/{orders}/messages/0/5")
    page.get_by_role("link", name="Who sent it").click()
    expect(page.locator("tbody tr")).to_have_count(3)
    expect(page.get_by_text("epoch 0, message 5 in this queue")).to_be_visible()
    window.check_accessible()


def test_wrong_places_are_explained(open_cluster: ConsoleCluster, orders: str, visit: Visit) -> None:
    window = visit(open_cluster)
    for path, text in [
        ("?queue=9", "has no queue 9"),
        ("?queue=x", "is no number"),
        ("?queue=0&time=soon", "is no time"),
        ("?queue=0&offset=-1", "is no number"),
        ("/0/99999", "has no message at offset 99999"),
        ("/7/0", "has no queue 7"),
    ]:
        page = window.open(f"/console/topics/{orders}/messages{path}")
        expect(page.get_by_role("alert")).to_contain_text(text)
        expect(page.get_by_role("navigation", name="Pages").get_by_role("link", name="Topics")).to_be_visible()


def test_reading_a_topic_leaves_its_groups_alone(open_cluster: ConsoleCluster, orders: str, visit: Visit) -> None:
    with Admin(open_cluster.bootstrap, profile="") as admin:
        before = admin.list_consumer_groups()
        window = visit(open_cluster)
        window.open(f"/console/topics/{orders}/messages")
        window.open(f"/console/topics/{orders}/messages/0/1")
        assert admin.list_consumer_groups() == before


def test_a_user_reads_only_what_it_may(secured_cluster: ConsoleCluster, visit: Visit) -> None:
    options = secured_cluster.client_options
    with Admin(secured_cluster.bootstrap, **options) as admin:
        admin.create_topic("seen", queues=1)
        admin.create_topic("read", queues=1)
        admin.add_user("ben", "a long password of ben")
        admin.grant("ben", "describe", "topic:seen")
        admin.grant("ben", "subscribe", "topic:read")
    with Producer(secured_cluster.bootstrap, **options) as producer:
        producer.send("seen", b"secret")
        producer.send("read", b"open")
    window = visit(secured_cluster)
    window.log_in("ben", "a long password of ben")
    deadline_s = time.monotonic() + 10
    while "seen" not in window.open("/console/topics").locator("main").inner_text():
        assert time.monotonic() < deadline_s
    page = window.open("/console/topics/seen")
    expect(page.get_by_role("link", name="Messages", exact=True)).to_have_count(0)
    for path in ("", "/0/0", "/0/0/raw"):
        answer = window.context.request.get(f"{window.base}/console/topics/seen/messages{path}")
        assert answer.status == 403, path
        assert b"secret" not in answer.body()
    page = window.open("/console/topics/read/messages/0/0")
    expect(page.locator("#value")).to_have_text("open")
