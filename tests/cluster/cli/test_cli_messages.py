"""Tests `ledgermq produce` and `consume` as a person uses them, against a local cluster of one node."""

from __future__ import annotations

import base64
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.local.processes import DevCluster
from ledgermq import GroupConsumer
from tests.cluster.cli.command import TIMEOUT_S, run, start

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with a running cluster of one node."""
    made = tmp_path_factory.mktemp("messages")
    cluster = DevCluster(made / "ledgermq-data")
    try:
        run("dev", "start", "-n", "1", "--base-port", str(random.randrange(20_000, 32_000, 10)), cwd=made)
        yield made
    finally:
        cluster.purge()


@pytest.fixture
def topic(directory: Path, request: pytest.FixtureRequest) -> str:
    name = re.sub("[^a-z0-9_]", "-", str(request.node.name))[:100]
    run("topic", "create", name, "--queues", "2", cwd=directory)
    return name


def consume(directory: Path, *arguments: str) -> bytes:
    return run("consume", *arguments, cwd=directory).stdout


def as_objects(lines: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines.splitlines()]


def test_what_json_prints_can_be_sent_again(directory: Path, topic: str) -> None:
    """One message of each shape goes through `produce --format json`, `consume --format json` and back."""
    coded = base64.b64encode(bytes(range(256))).decode()
    shapes: list[dict[str, Any]] = [
        {
            "key": "k",
            "tag": "paid",
            "headers": [{"name": "a", "value": "1"}, {"name": "a", "value": "2"}],
            "value": "v",
        },
        {"key": None, "tag": None, "headers": [], "value": ""},
        {"key": None, "tag": None, "headers": [], "value": "", "look_up_keys": ["order-17", {"base64": coded}]},
        {"key": "", "tag": "é", "headers": [{"name": "", "value_base64": coded}], "value_base64": coded},
        {"key_base64": coded, "tag": None, "headers": [], "value": "line\nend\r\n\u0000\u009b\u2028"},
    ]
    sent = [{**one, "timestamp_ms": 1_000 + number} for number, one in enumerate(shapes)]
    lines = b"".join(json.dumps(one).encode() + b"\r\n" for one in sent)
    account = run("produce", topic, "--format", "json", cwd=directory, input=lines)
    assert json.loads(account.stdout)["acknowledged"] == len(shapes)

    copy = f"{topic}-copy"
    run("topic", "create", copy, cwd=directory)
    printed = consume(directory, topic, "--format", "json")
    run("produce", copy, "--format", "json", cwd=directory, input=printed)

    def contents(name: str) -> list[dict[str, Any]]:
        of_the_place = {"topic", "queue", "offset", "append_time_ms", "term"}
        found = as_objects(consume(directory, name, "--format", "json"))
        kept = [{field: one[field] for field in one if field not in of_the_place} for one in found]
        return sorted(kept, key=lambda one: int(one["timestamp_ms"]))

    assert contents(topic) == sent
    assert contents(copy) == sent


def test_json_lines_that_are_no_messages_are_left_out(directory: Path, topic: str) -> None:
    lines = b'{"value": "a"}\nnonsense\n{"value": "b", "tag": ""}\n{"value": "c"}\n'
    ended = run("produce", topic, "--input", "json", "--queue", "0", cwd=directory, input=lines, status=1)
    assert b"left out: line 2 of standard input: it is not JSON" in ended.stderr
    assert b"left out: line 3 of standard input: " in ended.stderr
    assert b"2 messages acknowledged" in ended.stderr
    assert consume(directory, topic) == b"a\nc\n"


def test_headers_and_the_template_of_letters(directory: Path, topic: str) -> None:
    header = ("-H", "trace=1", "-H", "empty=", "--header", "eq=a=b")
    run("produce", topic, *header, "--key", "k", "--tag", "t", cwd=directory, input=b"one\n")
    shown = consume(directory, topic, "-f", r"%t %o %k %g %s %h\n")
    assert shown == f"{topic} 0 k t one trace=1,empty=,eq=a=b\n".encode()
    run("produce", topic, "-H", "no value", cwd=directory, status=2)
    many = [part for number in range(129) for part in ("-H", f"{number}=x")]
    assert b"headers" in run("produce", topic, *many, cwd=directory, status=1).stderr


def test_messages_are_found_by_each_of_their_look_up_keys(directory: Path, topic: str) -> None:
    keys = ("--look-up-key", "order-17", "--look-up-key", "ann", "--look-up-key", "ann")
    run("produce", topic, *keys, cwd=directory, input=b"one\n")
    run("produce", topic, *keys, "--key", "k", "-H", "a=b", cwd=directory, input=b"two\n")
    run("produce", topic, *keys, "--template", "three", cwd=directory)
    line = b'{"value": "four", "look_up_keys": ["bob", "order-17"]}\n'
    run("produce", topic, *keys, "--input", "json", cwd=directory, input=line)
    for key, count in (("order-17", 4), ("ann", 4), ("bob", 1), ("k", 1), ("nobody", 0)):
        found = run("message", "query", "--topic", topic, "--key", key, "--format", "json", cwd=directory).stdout
        assert len(as_objects(found)) == count, key
    (four,) = as_objects(
        run("message", "query", "--topic", topic, "--key", "bob", "--format", "json", cwd=directory).stdout
    )
    assert four["look_up_keys"] == ["bob", "order-17", "ann"]
    place = f"{topic}:{four['queue']}:{four['offset']}"
    assert b"look-up key bob, look-up key order-17" in run("message", "get", place, cwd=directory).stderr
    assert b"four [bob,order-17,ann]\n" in consume(directory, topic, "-f", r"%s [%l]\n")
    many = [part for number in range(17) for part in ("--look-up-key", str(number))]
    ended = run("produce", topic, *many, cwd=directory, input=b"x\n", status=1)
    assert b"17 look-up keys; the limit is 16" in ended.stderr


def test_a_file_that_is_sent_again_with_its_ids_makes_no_second_copy(directory: Path, topic: str) -> None:
    file = directory / f"{topic}.txt"
    file.write_bytes(b"1:one\n2:two\n")
    ids = ("--message-id", "orders-{{count}}")
    for form in ((), ("--key-separator", ":")):  # the second one has other keys, and so perhaps other queues
        run("produce", topic, str(file), *ids, "--queue", "0", *form, cwd=directory)
    with open(file, "ab") as more:
        more.write(b"3:three\n")
    again = run(
        "produce", topic, str(file), *ids, "--queue", "0", "--format", "json", "--input", "lines", cwd=directory
    )
    assert b"3 messages acknowledged" in again.stderr
    assert b"2 had been sent before with the same message ids" in again.stderr
    assert json.loads(again.stdout)["repeated"] == 2
    line = b'{"value": "four", "message_id": "orders-3"}\n{"value": "five", "message_id": ""}\n{"value": "six"}\n'
    named = run("produce", topic, "--input", "json", "--queue", "0", *ids, cwd=directory, input=line, status=1)
    assert b"left out: line 2 of standard input: " in named.stderr
    assert consume(directory, topic) == b"1:one\n2:two\n3:three\n", "line 3 of standard input is orders-3, too"
    run("produce", topic, "--template", "made", "--message-id", "m{{count}}", "-n", "2", "--queue", "0", cwd=directory)
    run("produce", topic, "--template", "made", "--message-id", "m{{count}}", "-n", "3", "--queue", "0", cwd=directory)
    assert consume(directory, topic).count(b"made\n") == 3
    assert b"is not a placeholder" in run("produce", topic, "--message-id", "{{line}}", cwd=directory, status=2).stderr


def test_tags_may_be_an_expression(directory: Path, topic: str) -> None:
    for tag in ("paid", "free", "other"):
        run("produce", topic, "--tag", tag, "--queue", "0", cwd=directory, input=tag.encode() + b"\n")
    assert consume(directory, topic, "--tag", "paid || free") == b"paid\nfree\n"
    assert consume(directory, topic, "--tag", "paid||free", "--group", f"g-{topic}"[:60]) == b"paid\nfree\n"


def test_one_ctrl_c_ends_a_question(directory: Path, topic: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "ledgermq", "topic", "delete", topic],
        cwd=directory,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        asked = b""
        while b"?" not in asked:
            asked += process.stderr.read(1)
        time.sleep(0.2)  # the question is there, and now the program reads the answer
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 130
    assert topic.encode() in run("topic", "list", cwd=directory).stdout


def test_line_ends_of_windows(directory: Path, topic: str) -> None:
    run("produce", topic, "--queue", "0", cwd=directory, input=b"one\r\ntwo\n\r\nfour")
    assert consume(directory, topic) == b"one\ntwo\n\nfour\n"
    run("produce", topic, "--queue", "1", "--separator", r"\n", cwd=directory, input=b"kept\r\n")
    assert consume(directory, topic, "--queue", "1") == b"kept\r\n"


def test_messages_of_a_template_at_a_rate(directory: Path, topic: str) -> None:
    template = ("--template", "n {{count}}", "--key", "k{{count}}")
    began = time.monotonic()
    run("produce", topic, *template, "-n", "5", "--rate", "20", cwd=directory)
    assert time.monotonic() - began >= 4 / 20
    found = as_objects(consume(directory, topic, "--format", "json"))
    assert sorted((one["key"], one["value"]) for one in found) == [(f"k{n}", f"n {n}") for n in range(1, 6)]
    assert b"1 message acknowledged" in run("produce", topic, "--template", "x", cwd=directory).stderr
    assert b"2 messages acknowledged" in run("produce", topic, "-n", "2", cwd=directory, input=b"1\n2\n3\n").stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("--template", "{{what}}"),
        ("--template", "x", "--input", "json"),
        ("--template", "x", "--separator", ","),
        ("--template", "x", "--key-separator", ","),
        ("--format", "json", "--key-separator", ","),
        ("--rate", "0"),
        ("--tag", ""),
        ("-H", "=value"),
    ],
)
def test_wrong_usage_of_produce(directory: Path, arguments: tuple[str, ...]) -> None:
    assert b"Error: " in run("produce", "t", *arguments, cwd=directory, status=2).stderr


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("t", "-f", "%x"),
        ("t", "-f", "%s", "--format", "json"),
        ("t", "-f", "%s", "--separator", ","),
        ("t", "--format", "json", "--key-separator", ","),
        ("t", "--group", "g", "--from", "-10"),
    ],
)
def test_wrong_usage_of_consume(directory: Path, arguments: tuple[str, ...]) -> None:
    assert b"Error: " in run("consume", *arguments, cwd=directory, status=2).stderr


def test_several_topics_the_last_messages_and_ages(directory: Path, topic: str) -> None:
    other = f"{topic}-2"
    run("topic", "create", other, "--queues", "1", cwd=directory)
    run("produce", topic, "--queue", "0", cwd=directory, input=b"1\n2\n3\n")
    run("produce", topic, "--queue", "1", cwd=directory, input=b"4\n")
    run("produce", other, cwd=directory, input=b"5\n6\n")
    both = (topic, other, topic)
    assert sorted(consume(directory, *both).split()) == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert sorted(consume(directory, *both, "--from", "-2").split()) == [b"2", b"3", b"4", b"5", b"6"]
    assert consume(directory, topic, "--queue", "0", "--from", "-1") == b"3\n"
    assert consume(directory, topic, "--from", "-0") == b""
    assert consume(directory, topic, "--queue", "0", "-n", "2") == b"1\n2\n"
    assert len(consume(directory, *both, "--from", "10m").split()) == 6
    assert sorted(consume(directory, *both, "--group", "g").split()) == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert consume(directory, *both, "--group", "g", "--from", "1h") == b""
    assert b"missing" in run("consume", topic, "missing", cwd=directory, status=1).stderr


def test_following_from_the_last_message(directory: Path, topic: str) -> None:
    run("produce", topic, "--queue", "0", cwd=directory, input=b"1\n2\n")
    reader = start("consume", topic, "--from", "-1", "--follow", "-n", "2", cwd=directory)
    assert reader.stdout is not None
    assert reader.stdout.readline() == b"2\n"
    run("produce", topic, "--queue", "0", cwd=directory, input=b"3\n")
    assert reader.communicate(timeout=TIMEOUT_S)[0] == b"3\n"


@pytest.mark.parametrize(("stop", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_member_acknowledges_and_leaves(
    directory: Path, topic: str, stop: signal.Signals, status: int
) -> None:
    run("produce", topic, cwd=directory, input=b"1\n2\n")
    group = f"group-{status}"
    reader = start("consume", topic, "--group", group, "--follow", cwd=directory)
    assert reader.stdout is not None
    assert sorted(reader.stdout.readline() for _ in range(2)) == [b"1\n", b"2\n"]
    reader.send_signal(stop)
    _, err = reader.communicate(timeout=TIMEOUT_S)
    assert reader.returncode == status, err.decode()
    assert b"2 messages" in err
    assert b"Traceback" not in err
    described = json.loads(run("group", "describe", group, "--format", "json", cwd=directory).stdout)
    assert described["members"] == []
    assert [one["lag"] for one in described["queues"] if one["topic"] == topic] == [0, 0]


def test_a_stopped_producer_gives_its_account(directory: Path, topic: str) -> None:
    writer = start("produce", topic, cwd=directory, stdin=subprocess.PIPE)
    assert writer.stdin is not None
    writer.stdin.write(b"one\n")
    writer.stdin.flush()
    assert consume(directory, topic, "--follow", "-n", "1") == b"one\n"
    writer.send_signal(signal.SIGTERM)
    _, err = writer.communicate(timeout=TIMEOUT_S)
    assert writer.returncode == 143
    assert b"1 message acknowledged" in err
    assert b"Traceback" not in err


def on_a_terminal(directory: Path, *arguments: str) -> tuple[int, bytes]:
    """Run a command with a terminal as its standard output and error. Return its exit status and its output."""
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "ledgermq", *arguments],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "NO_COLOR": "1"},
    ) as process:
        os.close(theirs)
        out = b""
        try:
            while data := os.read(ours, 1 << 16):
                out += data
        except OSError:  # how the end of a terminal looks
            pass
        os.close(ours)
    return process.returncode, out


def test_a_terminal_gets_no_control_characters_of_messages(directory: Path, topic: str) -> None:
    hostile = b"\x1b]0;title\x07\x1b[2J\x9b1m"
    run("produce", topic, "-H", "h=\x1b[2J", "--key", "\x1b[2J", cwd=directory, input=hostile + b"\n")
    assert consume(directory, topic) == hostile + b"\n", "a pipe gets the bytes"
    for form in ((), ("--key-separator", "="), ("-f", r"%k %h %s\n"), ("--format", "json")):
        status, out = on_a_terminal(directory, "consume", topic, *form)
        assert status == 0
        assert b"title" in out or b"value_base64" in out
        assert b"1 message" in out
        assert not re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x9b]", out), out


def test_progress_on_a_terminal(directory: Path, topic: str) -> None:
    status, out = on_a_terminal(directory, "produce", topic, "--template", "x", "-n", "20", "--rate", "40")
    assert status == 0
    assert re.search(rb"\d+ messages, \d+/s", out), out
    assert b"20 messages acknowledged" in out


def test_the_type_of_a_topic(directory: Path, topic: str) -> None:
    name = f"{topic}-typed"
    made = run("topic", "create", name, "--type", "fifo", "--queues", "2", cwd=directory)
    assert f"Created topic {name} with 2 queues and the type fifo." in made.stderr.decode()
    assert b"has no key" in run("produce", name, cwd=directory, input=b"x\n", status=1).stderr
    run("produce", name, "--key", "k", cwd=directory, input=b"x\n")
    (row,) = [line for line in run("topic", "list", cwd=directory).stdout.decode().splitlines() if name in line]
    assert row.split()[:3] == [name, "2", "fifo"]
    assert b"the type fifo" in run("topic", "describe", name, cwd=directory).stderr
    altered = run("topic", "alter", name, "--type", "mixed", "--format", "json", cwd=directory)
    assert json.loads(altered.stdout)["type"] == "mixed"
    run("produce", name, cwd=directory, input=b"x\n")


def test_a_topic_that_may_exist_and_system_topics(directory: Path, topic: str) -> None:
    create = ("topic", "create", topic, "--queues", "9")
    assert b"exists already" in run(*create, cwd=directory, status=1).stderr
    there = run(*create, "--if-not-exists", cwd=directory)
    assert f"Topic {topic} exists already with 2 queues, and stays as it is." in there.stderr.decode()
    assert json.loads(run(*create, "--if-not-exists", "--format", "json", cwd=directory).stdout)["queues"] == 2
    new = run("topic", "create", f"{topic}-new", "--if-not-exists", cwd=directory)
    assert f"Created topic {topic}-new" in new.stderr.decode()

    with GroupConsumer(
        topic, group="with-retries", bootstrap_servers=DevCluster(directory / "ledgermq-data").bootstrap
    ):
        pass  # its start has made the retry topic

    def listed(*options: str) -> set[str]:
        topics = json.loads(run("topic", "list", *options, "--format", "json", cwd=directory).stdout)["topics"]
        table = run("topic", "list", *options, cwd=directory).stdout.decode().splitlines()[1:]
        names = {one["name"] for one in topics}
        assert {line.split()[0] for line in table} == names
        return names

    assert {topic, "%RETRY%with-retries"} <= listed("--all")
    assert topic in listed()
    assert not any(name.startswith("%") for name in listed())
