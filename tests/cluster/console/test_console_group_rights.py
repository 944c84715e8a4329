"""What a user may not do with groups, timers and transactions is not offered, and is refused when asked."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from ledgermq import Admin, GroupConsumer, Producer
from tests.cluster.console.browser import ConsoleBrowser
from tests.cluster.console.conftest import ConsoleCluster, Visit

pytestmark = pytest.mark.real

PASSWORD = "a password of the test"


@pytest.fixture(scope="module")
def options(secured_cluster: ConsoleCluster) -> dict[str, Any]:
    return dict(secured_cluster.client_options)


@pytest.fixture(scope="module", autouse=True)
def prepared(secured_cluster: ConsoleCluster, options: dict[str, Any]) -> Iterator[Admin]:
    """The groups `news` and `secret`, and the user `reader`, who may read with the group `news`."""
    with Admin(secured_cluster.bootstrap, **options) as admin:
        admin.create_topic("headlines", queues=1)
        admin.create_consumer_group("secret", mode="shared")
        admin.add_user("reader", PASSWORD)
        for action, resource in (("subscribe", "topic:headlines"), ("subscribe", "group:news")):
            admin.grant("reader", action, resource)
        with Producer(secured_cluster.bootstrap, **options) as producer:
            producer.send("headlines", b"later", delay=timedelta(hours=1))
            producer.send("headlines", b"bad news")
        with GroupConsumer(
            "headlines", group="news", bootstrap_servers=secured_cluster.bootstrap, **options
        ) as consumer:
            (message,) = consumer.getmany(timeout_ms=10_000)
            consumer.give_up(message)
        yield admin


@pytest.fixture
def window(secured_cluster: ConsoleCluster, visit: Visit) -> ConsoleBrowser:
    """A window in which the user `reader` has logged in. The login leads to the topics, because this user may not see
    the cluster."""
    window = visit(secured_cluster)
    window.log_in("reader", PASSWORD)
    expect(window.page.get_by_role("heading", level=1)).to_have_text("Topics")
    return window


def post(window: ConsoleBrowser, path: str, **fields: str) -> int:
    """Send a form that no page has offered, with the proof of this login, and return the status."""
    page = window.open("/console/groups")
    proof = page.locator('input[name="proof"]').first.input_value()
    response = window.context.request.post(window.base + path, form={"proof": proof, **fields}, max_redirects=0)
    return response.status


def links(page: Page) -> list[str]:
    return page.locator("main a").all_inner_texts()


def test_a_user_sees_only_its_groups(window: ConsoleBrowser) -> None:
    page = window.open("/console/groups")
    expect(page.locator("#groups tbody tr")).to_have_count(1)
    assert links(page) == ["news"], "the user may not create a group"
    expect(window.open("/console/groups/secret").get_by_role("alert")).to_contain_text("no right to describe group")
    page = window.open("/console/groups/news")
    assert links(page) == ["Dead letters", "headlines"]
    expect(page.locator("#summary")).to_contain_text("queue: each queue belongs")


def test_dead_letters_are_shown_and_not_sent(window: ConsoleBrowser) -> None:
    page = window.open("/console/groups/news/dead-letters")
    expect(page.locator("main tbody")).to_contain_text("bad news")
    expect(page.locator("main").get_by_role("button")).to_have_count(0)
    expect(page.get_by_role("checkbox")).to_have_count(0)
    assert post(window, "/console/groups/news/dead-letters", what="all") == 403
    assert post(window, "/console/groups/news/dead-letters", what="some", **{"letter-0-0": "yes"}) == 403


def test_changes_are_refused(window: ConsoleBrowser, prepared: Admin) -> None:
    before = prepared.describe_consumer_group("news").queues
    assert post(window, "/console/groups/news/reset", to="earliest") == 403
    assert post(window, "/console/groups/news/delete", confirmed="yes") == 403
    assert post(window, "/console/groups/+create", name="mine", mode="shared", confirmed="yes") == 400
    assert prepared.describe_consumer_group("news").queues == before
    assert "mine" not in [group.name for group in prepared.list_consumer_groups()]


def test_a_form_without_its_proof_is_refused(window: ConsoleBrowser) -> None:
    response = window.context.request.post(f"{window.base}/console/groups/news/delete", form={"confirmed": "yes"})
    assert response.status == 403
    assert "does not belong to this login" in response.text()


def test_a_timer_is_shown_and_not_cancelled(window: ConsoleBrowser, prepared: Admin) -> None:
    (waiting,) = prepared.waiting_messages("headlines")
    page = window.open("/console/timers")
    page.locator("main tbody a").click()
    expect(page.locator("main pre")).to_have_text("later")
    expect(page.locator("main").get_by_role("button")).to_have_count(0)
    assert post(window, f"/console/timers/{waiting.handle}") == 403
    assert len(prepared.waiting_messages("headlines")) == 1


def test_a_transaction_is_not_ended(
    window: ConsoleBrowser, secured_cluster: ConsoleCluster, options: dict[str, Any], prepared: Admin
) -> None:
    with Producer(secured_cluster.bootstrap, **options) as producer:
        transaction = producer.transaction("headlines", group="writers")
        transaction.__enter__()
        transaction.send(b"perhaps")
        name = transaction.id
        page = window.open(f"/console/transactions/{name}")
        expect(page.locator("main pre")).to_have_text("perhaps")
        expect(page.locator("main").get_by_role("button")).to_have_count(0)
        for end in ("commit", "rollback"):
            assert post(window, f"/console/transactions/{name}", end=end) == 403
        assert [each.state for each in prepared.transactions("writers")] == ["open"]
        transaction.rollback()
