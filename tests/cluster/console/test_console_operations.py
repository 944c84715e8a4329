"""Carries out the operations of the console in a browser: the plan comes first, and the audit log has the user."""

from __future__ import annotations

import random
import re
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest
from playwright.sync_api import expect

from ledgermq import Admin, Producer
from tests.cluster.console.conftest import ConsoleCluster, Visit

pytestmark = pytest.mark.real


def test_leadership_is_transferred_after_its_plan(open_cluster: ConsoleCluster, visit: Visit) -> None:
    window = visit(open_cluster)
    page = window.open("/console/operations")
    window.check_accessible()
    row = page.get_by_role("region", name="Table of leaders").locator("tbody tr").first
    link = row.get_by_role("link", name="node ").first
    target = link.inner_text()
    link.click()
    expect(page.get_by_role("heading", level=2).first).to_have_text("What happens")
    window.check_accessible()
    page.get_by_role("button", name=f"Transfer to {target}").click()
    expect(page.get_by_role("status").first).to_contain_text(f"N{target[1:]} leads shard 0")


def test_a_leader_is_pinned_and_unpinned(open_cluster: ConsoleCluster, visit: Visit) -> None:
    window = visit(open_cluster)
    page = window.open("/console/operations")
    row = page.get_by_role("region", name="Table of leaders").locator("tbody tr").first
    row.locator("td").last.get_by_role("link", name="node 2").click()
    window.check_accessible()
    page.get_by_role("button", name="Pin node 2").click()
    expect(page.get_by_role("status").first).to_contain_text("Node 2 is pinned as the leader of shard 0")
    expect(row).to_contain_text("node 2, pinned")
    row.get_by_role("link", name="none").click()
    page.get_by_role("button", name="Remove the pin").click()
    expect(page.get_by_role("status").first).to_contain_text("Shard 0 has no pinned leader")


def test_logs_are_held_and_released(open_cluster: ConsoleCluster, visit: Visit) -> None:
    window = visit(open_cluster)
    page = window.open("/console/operations")
    page.get_by_label("Name").fill("backup")
    page.locator("form", has=page.get_by_label("Name")).get_by_role("button").click()
    page.get_by_role("button", name="Take the hold").click()
    table = page.get_by_role("region", name="Table of holds")
    expect(table.locator("tbody tr")).to_have_count(2)
    expect(table).to_contain_text("backup")
    window.open("/console/operations/plan/trim?before_ms=1")
    expect(page.get_by_text("The log is held by")).to_be_visible()
    window.open("/console/operations")
    table.get_by_role("link", name="release").first.click()
    page.get_by_role("button", name="Release it").click()
    expect(page.get_by_text("No log is held.")).to_be_visible()


def test_a_removal_shows_what_is_at_stake(open_cluster: ConsoleCluster, visit: Visit) -> None:
    page = visit(open_cluster).open("/console/operations")
    page.get_by_role("link", name="remove").nth(2).click()
    expect(page.get_by_text("Shard 0: 3 voters become 2; it survives 0 failure(s) (now 1).")).to_be_visible()
    expect(page.get_by_text("One more failed node stops its writes.").first).to_be_visible()
    expect(page.get_by_role("button", name="Remove node 3")).to_be_visible()


def test_a_node_is_added_promoted_and_removed(open_cluster: ConsoleCluster, visit: Visit) -> None:
    node, address = open_cluster.start_joining_node()
    page = visit(open_cluster).open("/console/operations")
    page.get_by_label("Number").fill(str(node))
    page.get_by_label("Address").fill(address)
    page.locator("form", has=page.get_by_label("Address")).get_by_role("button").click()
    expect(page.get_by_text(f"Node {node} at {address} becomes a learner of 2 shard(s).")).to_be_visible()
    page.get_by_role("button", name=f"Add node {node} as a learner").click()
    row = page.get_by_role("region", name="Table of members").get_by_role("row", name=address)
    expect(row).to_contain_text("learner in 2")
    with Admin(open_cluster.bootstrap, profile="") as admin:
        deadline_s = time.monotonic() + 20
        while not all((found := admin.members(shard=shard).get(node)) and found.caught_up for shard in (0, 1)):
            assert time.monotonic() < deadline_s, "the learner does not catch up"
            time.sleep(0.1)
    row.get_by_role("link", name="promote").click()
    expect(page.get_by_text("Shard 0: 3 voters become 4; it survives 1 failure(s) (now 1).")).to_be_visible()
    page.get_by_role("button", name=f"Promote node {node}").click()
    expect(page.get_by_role("status").first).to_have_text(f"Node {node} votes in all its shards.")
    row.get_by_role("link", name="remove").click()
    expect(page.get_by_text("Shard 0: 4 voters become 3; it survives 1 failure(s) (now 1).")).to_be_visible()
    page.get_by_role("button", name=f"Remove node {node}").click()
    expect(page.get_by_role("status").first).to_contain_text(f"Node {node} is no member any more.")
    expect(row).to_have_count(0)


def test_a_node_is_drained_and_the_replicas_are_balanced(open_cluster: ConsoleCluster, visit: Visit) -> None:
    node, address = open_cluster.start_joining_node()
    with Admin(open_cluster.bootstrap, profile="") as admin:
        admin.add_node(node, address, shard=0)
        operations, cluster = visit(open_cluster), visit(open_cluster)
        page, live = operations.open("/console/operations"), cluster.open("/console/")
        status, members = page.get_by_role("status").first, page.get_by_role("region", name="Table of members")
        expect(live.locator("#moves")).to_contain_text("No replica moves.")

        page.get_by_role("link", name="pause all moves").click()
        operations.check_accessible()
        page.get_by_role("button", name="Pause").click()
        expect(status).to_have_text("All moves of replicas are paused.")
        members.get_by_role("row", name=re.compile("^2 ")).get_by_role("link", name="drain").click()
        expect(page.get_by_text("The replicas of 1 shard(s) move to other nodes")).to_be_visible()
        page.get_by_role("button", name="Drain node 2").click()
        expect(status).to_contain_text("Node 2 is being drained.")
        expect(live.locator("#moves")).to_contain_text("All moves are paused.")
        expect(live.locator(".node", has_text="Node 2")).to_contain_text("draining")
        cluster.check_accessible()
        assert 2 in members_of(admin, 1)

        page.get_by_role("link", name="go on with moves").click()
        page.get_by_role("button", name="Go on").click()
        expect(status).to_have_text("Moves of replicas go on.")
        deadline_s = time.monotonic() + 60
        while members_of(admin, 1) != {1, 3, node}:
            assert time.monotonic() < deadline_s, "the replica does not leave node 2"
            time.sleep(0.2)
        expect(live.locator("#moves")).to_contain_text("No replica moves.", timeout=30_000)

        operations.open("/console/operations")
        members.get_by_role("link", name="end the drain").click()
        page.get_by_role("button", name="End the drain").click()
        expect(status).to_have_text("Node 2 is not drained any more.")
        expect(live.locator(".node", has_text="Node 2")).not_to_contain_text("draining")
        operations.open("/console/operations/plan/balance")
        expect(page.get_by_role("heading", level=1)).to_have_text("Balance the replicas")
        admin.remove_node(node, timeout_ms=60_000)
        assert members_of(admin, 1) == {1, 2, 3}


def members_of(admin: Admin, shard: int) -> set[int]:
    return {member.node for member in admin.members(shard=shard).members}


def test_old_messages_are_removed_after_their_plan(open_cluster: ConsoleCluster, visit: Visit) -> None:
    with Admin(open_cluster.bootstrap, profile="") as admin:
        admin.create_topic("old", queues=1)
    with Producer(open_cluster.bootstrap, profile="") as producer:
        for _ in range(5):
            producer.send_many("old", [random.randbytes(1 << 20) for _ in range(4)])
    page = visit(open_cluster).open("/console/operations")
    page.get_by_label("Remove messages older than").fill("0")
    page.locator("form", has=page.get_by_label("Remove messages older than")).get_by_role("button").click()
    expect(page.get_by_text("Removed messages cannot be restored")).to_be_visible()
    page.get_by_role("button", name="Remove them for good").click()
    expect(page.get_by_role("status").first).to_contain_text("messages were removed;")


def test_the_audit_log_has_the_user(secured_cluster: ConsoleCluster, visit: Visit) -> None:
    window = visit(secured_cluster)
    window.log_in("admin", secured_cluster.password)
    page = window.page
    expect(page.get_by_role("heading", level=1)).to_have_text("Cluster dev")
    window.open("/console/operations/plan/hold?name=mine&hours=1")
    page.get_by_role("button", name="Take the hold").click()
    expect(page.get_by_role("region", name="Table of holds")).to_contain_text("mine")
    window.open("/console/audit?words=HoldLog")
    expect(page.locator(".event").first).to_contain_text("admin")
    expect(page.locator(".event").first).to_contain_text("name='mine'")
    window.check_accessible()


def test_a_user_sees_only_operations_that_it_may_do(secured_cluster: ConsoleCluster, visit: Visit) -> None:
    with Admin(secured_cluster.bootstrap, **secured_cluster.client_options) as admin:
        admin.add_user("watcher", "a password of the test")
        admin.grant("watcher", "describe", "cluster")
    window = visit(secured_cluster)
    window.log_in("watcher", "a password of the test")
    page = window.page
    expect(page.get_by_role("heading", level=1)).to_have_text("Cluster dev")
    window.open("/console/operations")
    expect(page.get_by_role("region", name="Table of members")).to_be_visible()
    assert page.get_by_role("link", name="remove").count() == 0
    assert page.get_by_role("button", name="Show the plan").count() == 0
    for path in ("/console/operations/plan/remove?node=3", "/console/audit"):
        window.open(path)
        expect(page.get_by_role("alert")).to_contain_text("User watcher has no right to administer the cluster")


def test_forms_of_other_sites_are_refused(open_cluster: ConsoleCluster) -> None:
    """A form needs the proof of a page, and must not come from another site, whatever proof it has."""
    base = open_cluster.url(1)
    with urllib.request.urlopen(f"{base}/console/operations/plan/hold?name=mine", timeout=10) as page:
        found = re.search(r'name="proof" value="(\w+)"', page.read().decode())
    assert found is not None

    def sent(proof: str, **headers: str) -> int:
        form = urllib.parse.urlencode({"name": "stolen", "hours": "1", "proof": proof}).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(f"{base}/console/operations/hold", form, named)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as refused:
            return refused.code

    assert sent("0" * 32) == 403
    assert sent(found[1], Origin="http://evil.example") == 403
    assert sent(found[1], Origin="null") == 403
    assert sent(found[1], Sec_Fetch_Site="cross-site") == 403
    assert sent(found[1], Origin=base, Sec_Fetch_Site="same-origin") == 200
