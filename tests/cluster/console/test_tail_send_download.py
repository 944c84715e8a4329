"""Follows, sends and downloads messages in a real browser."""

from __future__ import annotations

import base64
import io
import json
import time

import pytest
from playwright.sync_api import expect

from ledgermq import Admin, Producer
from tests.cluster.console.conftest import ConsoleCluster, Visit

pytestmark = pytest.mark.real

SCRIPT = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


def create(cluster: ConsoleCluster, name: str, queues: int = 2) -> None:
    with Admin(cluster.bootstrap, profile="") as admin:
        admin.create_topic(name, queues=queues)


def test_a_tail_shows_new_messages_and_pauses(open_cluster: ConsoleCluster, visit: Visit) -> None:
    create(open_cluster, "tailed")
    window = visit(open_cluster)
    page = window.open("/console/topics/tailed/tail")
    expect(page.locator("#tail-status")).to_have_text("following")
    with Producer(open_cluster.bootstrap, profile="") as producer:
        producer.send("tailed", SCRIPT.encode(), key=SCRIPT, tag="t")
        expect(page.locator("#lines li").first).to_contain_text(SCRIPT[:40])
        assert "owned" not in page.title()
        assert page.locator("#lines script, #lines img").count() == 0
        producer.send("tailed", b"\xff\x1bsecond")
        expect(page.locator("#lines li").first).to_contain_text("\\xff\\x1bsecond")
        window.check_accessible()
        page.get_by_role("button", name="Pause").click()
        producer.send("tailed", b"while paused")
        time.sleep(1.5)
        expect(page.get_by_text("while paused")).to_have_count(0)
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_text("while paused")).to_have_count(1)
        producer.send_many("tailed", [b"%d" % number for number in range(5_000)])
        expect(page.get_by_text("messages left out").first).to_be_visible()
    assert page.locator("#lines li").count() <= 500
    page.locator("#lines a").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Message tailed:")


def test_a_tail_begins_with_the_newest_messages_however_large_they_are(
    open_cluster: ConsoleCluster, visit: Visit
) -> None:
    create(open_cluster, "large", 1)
    with Producer(open_cluster.bootstrap, profile="") as producer:
        for value in (b"first", b"x" * (2 << 20), b"y" * (2 << 20), b"last"):
            producer.send("large", value)
    page = visit(open_cluster).open("/console/topics/large/tail")
    expect(page.locator("#lines li").first).to_contain_text("last")
    expect(page.locator("#lines li").last).to_contain_text("first")


def test_a_tail_goes_on_after_the_leader_was_killed(open_cluster: ConsoleCluster, visit: Visit) -> None:
    create(open_cluster, "survives", 1)
    leader = open_cluster.leader()
    window = visit(open_cluster, next(node for node in (1, 2, 3) if node != leader))
    page = window.open("/console/topics/survives/tail")
    expect(page.locator("#tail-status")).to_have_text("following")
    open_cluster.kill(leader)
    try:
        with Producer(open_cluster.bootstrap, profile="") as producer:
            producer.send("survives", b"after the kill")
        expect(page.get_by_text("after the kill")).to_have_count(1)
        expect(page.locator("#tail-status")).to_have_text("following")
    finally:
        open_cluster.restart(leader)


def test_a_test_message_is_sent(open_cluster: ConsoleCluster, visit: Visit) -> None:
    create(open_cluster, "sent-to")
    window = visit(open_cluster)
    page = window.open("/console/topics/sent-to/send")
    window.check_accessible()
    page.get_by_label("Value", exact=True).fill('{"a":\n<1>}')
    page.get_by_label("The value is written as").select_option("json")
    page.get_by_label("Key").fill("k1")
    page.get_by_label("Tag").fill("paid")
    page.get_by_label("Headers").fill("trace: 17")
    page.get_by_label("Queue").fill("1")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("alert")).to_contain_text("The value is no JSON")
    expect(page.get_by_label("Key")).to_have_value("k1")
    page.get_by_label("Value", exact=True).fill('{"a":\n1}')
    page.get_by_role("button", name="Send").click()
    page.get_by_role("link", name="queue 1, offset 0").click()
    expect(page.locator("#value")).to_have_text('{\n  "a": 1\n}')
    with Admin(open_cluster.bootstrap, profile="") as admin:
        message = admin.get_message("sent-to", 1, 0)
        assert (message.value, message.key, message.tag) == (b'{"a":\n1}', b"k1", "paid")
        assert message.headers == (("trace", b"17"),)
        page = window.open("/console/topics/sent-to/send")
        page.get_by_label("Value", exact=True).fill("later")
        page.get_by_label("Deliver after").fill("3600")
        page.get_by_role("button", name="Send").click()
        handle = page.get_by_role("status").locator("code").inner_text()
        assert admin.waiting_message(handle) is not None


def test_a_range_is_downloaded(open_cluster: ConsoleCluster, visit: Visit) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    create(open_cluster, "loaded", 1)
    with Producer(open_cluster.bootstrap, profile="") as producer:
        producer.send_many("loaded", [(f"k{number}", b"\xff%d" % number) for number in range(3_000)])
    window = visit(open_cluster)
    page = window.open("/console/topics/loaded/download")
    window.check_accessible()
    page.get_by_label("From offset").fill("10")
    page.get_by_label("To before offset").fill("2500")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "loaded-0.jsonl"
    lines = [json.loads(line) for line in download.value.path().read_text().splitlines()]
    assert [line["offset"] for line in lines] == list(range(10, 2500))
    assert base64.b64decode(lines[0]["value_base64"]) == b"\xff10"
    page.get_by_label("As").select_option("parquet")
    page.get_by_label("At most messages").fill("100")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    table = parquet.read_table(io.BytesIO(download.value.path().read_bytes()))
    assert table["offset"].to_pylist() == list(range(10, 110))
    empty = window.context.request.get(f"{window.base}/console/topics/loaded/download/file?queue=0&from=5&to=5")
    assert (empty.status, empty.body()) == (200, b"")
    for query, text in [
        ("queue=0&form=xml", "no form of a download"),
        ("queue=8", "has no queue 8"),
        ("count=0", "no"),
    ]:
        answer = window.context.request.get(f"{window.base}/console/topics/loaded/download/file?{query}")
        assert answer.status in (400, 404)
        assert text in answer.text()


def test_a_user_sends_and_follows_only_what_it_may(secured_cluster: ConsoleCluster, visit: Visit) -> None:
    options = secured_cluster.client_options
    with Admin(secured_cluster.bootstrap, **options) as admin:
        admin.create_topic("readable", queues=1)
        admin.create_topic("writable", queues=1)
        admin.add_user("cleo", "a long password of cleo")
        admin.grant("cleo", "subscribe", "topic:readable")
        admin.grant("cleo", "publish", "topic:writable")
        window = visit(secured_cluster)
        window.log_in("cleo", "a long password of cleo")
        deadline_s = time.monotonic() + 10
        while "writable" not in window.open("/console/topics").locator("main").inner_text():
            assert time.monotonic() < deadline_s
        page = window.open("/console/topics/readable")
        expect(page.get_by_role("link", name="Live tail")).to_be_visible()
        expect(page.get_by_role("link", name="Send a message")).to_have_count(0)
        page = window.open("/console/topics/writable/send")
        expect(page.get_by_role("link", name="Live tail")).to_have_count(0)
        page.get_by_label("Value", exact=True).fill("payload of cleo")
        page.get_by_role("button", name="Send").click()
        expect(page.get_by_text("queue 0, offset 0")).to_be_visible()
        proof = page.locator("input[name=proof]").first.input_value()
        assert admin.get_message("writable", 0, 0).value == b"payload of cleo"
        get = window.context.request.get
        for path in ("/topics/writable/tail", "/live/topics/writable/tail", "/topics/writable/download/file?queue=0"):
            answer = get(f"{window.base}/console{path}")
            assert answer.status == 403, path
            assert b"payload of cleo" not in answer.body()
        answer = window.context.request.post(
            f"{window.base}/console/topics/readable/send", form={"value": "no", "proof": proof}
        )
        assert answer.status == 403
        assert admin.describe_topic("readable").offsets[0].end_offset == 0


def test_a_download_stops_when_the_browser_leaves(open_cluster: ConsoleCluster, visit: Visit) -> None:
    create(open_cluster, "long", 1)
    with Producer(open_cluster.bootstrap, profile="") as producer:
        producer.send_many("long", [b"x" * 60_000] * 700)
    window = visit(open_cluster)
    window.open("/console/topics/long/download")
    left = window.page.evaluate(
        """async () => {
            const abort = new AbortController();
            const read = async () => {
                const answer = await fetch("/console/topics/long/download/file?queue=0", {signal: abort.signal});
                await answer.body.getReader().read();
            };
            await Promise.all([read(), read(), read()]);
            abort.abort();
            return "left";
        }"""
    )
    assert left == "left"
    # All three places were taken; a fourth download gets one as soon as the node has noticed that the browser left.
    answer = window.context.request.get(f"{window.base}/console/topics/long/download/file?queue=0&count=1")
    assert answer.status == 200
