"""Tests the forms of downloads, what a form makes a test message of, and how a tail bounds its turns."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta

import pytest

from cluster.console import message_files
from cluster.console.message_files import message_file
from cluster.console.new_message import MAX_JSON_CHARACTERS, new_message
from cluster.console.pages.messages_page import attachment, time_of
from cluster.console.reading import TopicReader
from cluster.console.tail import LINES_A_TURN, QUEUES_A_TURN, Tail
from ledger.client.connection.route_table import RoutedTopic
from ledger.client.records import Message, QueueOffsets
from ledger.errors import InvalidArgumentError


def message(offset: int = 7, value: bytes = b"value", queue: int = 0) -> Message:
    return Message("orders", queue, offset, 1_000, 2_000, b"\xffkey", value, "tag", (("h", b"\xfe"),), 3, (b"look",))


def test_json_lines_have_the_form_of_the_command_line() -> None:
    file = message_file("jsonl")
    lines = (file.add([message(), message(8)]) + file.end()).decode().splitlines()
    assert [json.loads(line)["offset"] for line in lines] == [7, 8]
    assert json.loads(lines[0])["key_base64"] == "/2tleQ=="


def test_a_parquet_file_is_complete_and_comes_in_pieces() -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    file = message_file("parquet")
    pieces = [file.add([message(), message(8, b"\xff")]), file.add([message(9, b"x" * 100_000)]), file.end()]
    assert all(pieces)
    table = parquet.read_table(io.BytesIO(b"".join(pieces)))
    assert table.num_rows == 3
    row = table.slice(1, 1).to_pylist()[0]
    assert row == {
        "topic": "orders",
        "queue": 0,
        "offset": 8,
        "timestamp": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        "append_time": datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC),
        "term": 3,
        "key": b"\xffkey",
        "tag": "tag",
        "headers": [{"name": "h", "value": b"\xfe"}],
        "look_up_keys": [b"look"],
        "value": b"\xff",
    }


def test_a_parquet_file_without_messages_is_a_file() -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    assert parquet.read_table(io.BytesIO(message_file("parquet").end())).num_rows == 0


def test_without_pyarrow_the_answer_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_files, "find_spec", lambda _: None)
    with pytest.raises(InvalidArgumentError, match=r"pip install 'ledgermq\[server,parquet\]'"):
        message_file("parquet")
    with pytest.raises(InvalidArgumentError, match="no form of a download"):
        message_file("xml")


def test_the_name_of_a_file_cannot_add_headers() -> None:
    assert attachment('%RETRY%a"\r\nSet-Cookie: x') == 'attachment; filename="_RETRY_a___Set-Cookie__x"'


def test_a_form_makes_a_message() -> None:
    made = new_message(
        {
            "value": "a\r\nb",
            "encoding": "text",
            "key": "k",
            "tag": "",
            "headers": "trace: 17\r\n\r\nurl: http://x:1/",
            "queue": "0",
            "delay": "60",
        }
    )
    assert (made.value, made.key, made.tag, made.queue) == (b"a\nb", "k", None, 0)
    assert made.headers == [("trace", "17"), ("url", "http://x:1/")]
    assert made.delay == timedelta(seconds=60)
    assert new_message({}).queue is None
    assert new_message({"value": "ff 00\r\n0a", "encoding": "hex"}).value == b"\xff\x00\n"
    assert new_message({"value": "/w=\r\n=", "encoding": "base64"}).value == b"\xff"
    assert new_message({"value": '{"a":  1}', "encoding": "json"}).value == b'{"a":  1}'


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ({"value": "{", "encoding": "json"}, "no JSON: Expecting property name"),
        ({"value": "[NaN]", "encoding": "json"}, "no JSON"),
        ({"value": "[" * 100_000, "encoding": "json"}, "no JSON"),
        ({"value": f"[{'1,' * (MAX_JSON_CHARACTERS // 2)}1]", "encoding": "json"}, "send it as text"),
        ({"value": "xyz", "encoding": "hex"}, "no hexadecimal"),
        ({"value": "!", "encoding": "base64"}, "no base64"),
        ({"value": "\ud800"}, "no text"),
        ({"encoding": "<b>"}, "none of text"),
        ({"headers": "ok: 1\nbad"}, "Line 2 of the headers"),
        ({"headers": ": x"}, "Line 1 of the headers"),
        ({"queue": "-1"}, "no number"),
        ({"delay": "99999999"}, "no number"),
    ],
)
def test_a_wrong_form_is_explained(form: dict[str, str], reason: str) -> None:
    with pytest.raises(InvalidArgumentError, match=reason):
        new_message(form)


def test_a_time_without_a_zone_is_in_utc() -> None:
    assert time_of("1970-01-01T00:00:01.5") == 1_500
    assert time_of("1970-01-01T01:00:00+01:00") == 0
    for text in ("1969-12-31T23:59:59", "soon", "9999999"):
        with pytest.raises(InvalidArgumentError):
            time_of(text)


class FakeReader(TopicReader):
    """A topic whose queues the test lets grow. Counts the reads."""

    def __init__(self, queues: int) -> None:
        self.ends = dict.fromkeys(range(queues), 0)
        self.reads = 0
        self.topic_id = 1

    async def topic(self, name: str) -> RoutedTopic:
        return RoutedTopic(name, self.topic_id, (0,) * len(self.ends), 0)

    async def offsets(self, topic: RoutedTopic, *, sizes: bool = False) -> list[QueueOffsets]:
        return [QueueOffsets(queue, 0, end) for queue, end in self.ends.items()]

    async def newest(self, topic: RoutedTopic, queue: int, offset: int, end: int) -> list[Message]:
        self.reads += 1
        return [message(number, queue=queue) for number in range(offset, end)]


async def test_a_tail_shows_the_newest_messages_and_counts_the_others() -> None:
    reader = FakeReader(1)
    reader.ends[0] = 1_000
    tail = Tail(reader, "orders", 100)
    first = await tail.turn()
    assert [line.offset for line in first.lines] == list(range(999, 999 - LINES_A_TURN, -1))
    assert first.left_out == 0
    assert (await tail.turn()).lines == []
    reader.ends[0] = 1_003
    turn = await tail.turn()
    assert ([line.offset for line in turn.lines], turn.left_out) == ([1_002, 1_001, 1_000], 0)
    reader.ends[0] = 51_003
    turn = await tail.turn()
    assert (len(turn.lines), turn.left_out) == (LINES_A_TURN, 50_000 - LINES_A_TURN)
    assert turn.lines[0].offset == 51_002


async def test_a_turn_reads_a_bounded_number_of_queues() -> None:
    reader = FakeReader(200)
    tail = Tail(reader, "orders", 100)
    await tail.turn()
    assert reader.reads == 0
    seen: set[int] = set()
    for turn in range(1, 26):
        reader.ends = dict.fromkeys(range(200), turn)
        news = await tail.turn()
        assert len(news.lines) + news.left_out == 200
        seen.update(line.queue for line in news.lines)
    assert reader.reads == 25 * QUEUES_A_TURN
    assert seen == set(range(200))
