"""Tests `ledgermq timer` and delivery times of `ledgermq produce`, against a local cluster of one node."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cluster.local.processes import DevCluster
from tests.cluster.cli.command import completed, run

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with a running cluster of one node, and two topics."""
    made = tmp_path_factory.mktemp("timer")
    cluster = DevCluster(made / "ledgermq-data")
    try:
        run("dev", "start", "-n", "1", "--base-port", str(random.randrange(20_000, 32_000, 10)), cwd=made)
        for topic in ("orders", "other"):
            run("topic", "create", topic, "--queues", "2", cwd=made)
        yield made
    finally:
        cluster.purge()


def waiting(directory: Path, *arguments: str) -> list[dict[str, Any]]:
    printed = run("timer", "list", *arguments, "--format", "json", cwd=directory).stdout
    return [json.loads(line) for line in printed.splitlines()]


def clear(directory: Path) -> None:
    if handles := "\n".join(each["handle"] for each in waiting(directory, "--limit", "10000")):
        run("timer", "cancel", "-", cwd=directory, input=handles.encode())


def test_messages_are_listed_shown_and_cancelled(directory: Path) -> None:
    run("produce", "orders", "--delay", "2h", "--key", "k1", "--tag", "paid", cwd=directory, input=b"late\n")
    run("produce", "orders", "--delay", "1h", "-H", "trace=7", cwd=directory, input=b"early\n")
    at = (datetime.now(UTC) + timedelta(days=3)).isoformat()
    run("produce", "other", "--deliver-at", at, cwd=directory, input=b"last\n")
    early, late, last = waiting(directory)
    assert [each["topic"] for each in (early, late, last)] == ["orders", "orders", "other"]
    assert (late["key"], late["tag"], late["bytes"]) == ("k1", "paid", 4)
    assert last["deliver_at"][:19] == at[:19]
    assert waiting(directory, "orders") == [early, late]
    assert waiting(directory, "--from", late["deliver_at"]) == [late, last]
    assert waiting(directory, "--to", late["deliver_at"]) == [early]

    page = run("timer", "list", "--limit", "2", cwd=directory)
    assert early["handle"].encode() in page.stdout
    assert b"The first 2 messages; there may be more" in page.stderr
    shown = run("timer", "show", early["handle"], cwd=directory)
    assert shown.stdout == b"early\n"
    assert b"trace: 7" in shown.stderr
    assert json.loads(run("timer", "show", late["handle"], "--format", "json", cwd=directory).stdout)["value"] == "late"

    done = run("timer", "cancel", early["handle"], last["handle"], cwd=directory)
    assert b"2 messages cancelled." in done.stderr
    again = run("timer", "cancel", late["handle"], last["handle"], "--format", "json", cwd=directory, status=1)
    assert [json.loads(line)["cancelled"] for line in again.stdout.splitlines()] == [True, False]
    assert b"1 did not wait" in again.stderr
    assert b"No message with this handle waits" in run("timer", "show", late["handle"], cwd=directory, status=1).stderr
    assert b"No messages wait" in run("timer", "list", cwd=directory).stderr


def test_json_lines_have_delivery_times(directory: Path) -> None:
    clear(directory)
    soon = datetime.now(UTC) + timedelta(seconds=1)
    later = (datetime.now(UTC) + timedelta(hours=5)).isoformat(timespec="milliseconds")
    lines: list[dict[str, str | None]] = [
        {"value": "soon", "deliver_at": soon.isoformat()},
        {"value": "later", "deliver_at": later},
        {"value": "as the others", "deliver_at": None},
    ]
    sent = "".join(json.dumps(each) + "\n" for each in lines).encode()
    run("produce", "orders", "--input", "json", "--delay", "3h", cwd=directory, input=sent)
    assert {each["bytes"] for each in waiting(directory)} >= {len("later"), len("as the others")}
    deadline = time.monotonic() + 30
    printed: list[dict[str, Any]] = []
    while not printed and time.monotonic() < deadline:
        output = run("consume", "orders", "--format", "json", cwd=directory).stdout
        printed = [json.loads(line) for line in output.splitlines()]
    (got,) = printed
    assert got["value"] == "soon"
    assert abs(datetime.fromisoformat(got["deliver_at"]) - soon) <= timedelta(milliseconds=1)
    template = run("consume", "orders", "-f", "%D %s", cwd=directory).stdout
    assert template == b"%d soon" % round(datetime.fromisoformat(got["deliver_at"]).timestamp() * 1000)
    run("produce", "other", "--format", "json", cwd=directory, input=json.dumps({**got, "deliver_at": later}).encode())
    (copy,) = waiting(directory, "other")
    content = json.loads(run("timer", "show", copy["handle"], "--format", "json", cwd=directory).stdout)
    assert (content["value"], content["headers"]) == ("soon", [])


def test_what_is_wrong_is_said(directory: Path) -> None:
    both = run("produce", "orders", "--delay", "1d", "--deliver-at", "0", cwd=directory, status=2)
    assert b"give either --delay or --deliver-at" in both.stderr
    assert b"is not the handle" in run("timer", "cancel", "orders:1:2", cwd=directory, status=1).stderr
    assert b"no handle is given" in run("timer", "cancel", cwd=directory, status=2).stderr
    far = run("produce", "orders", "--delay", "41d", cwd=directory, input=b"x\n", status=1)
    assert b"the limit is 40 days" in far.stderr
    assert (
        b"time with a time zone"
        in run(
            "produce", "orders", "--input", "json", cwd=directory, input=b'{"value": "a", "deliver_at": 5}', status=1
        ).stderr
    )


def test_topics_are_completed(directory: Path) -> None:
    assert completed(directory, "timer", "list", "o") == {"orders", "other"}
    assert completed(directory, "timer", "") == {"list", "show", "cancel"}
