"""Tests what `ledgermq produce` and `consume` read and print, without a cluster: JSON lines, templates, starts, and
what a terminal shows."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.cli.messages.flow import in_turns, limited, paced
from cluster.cli.messages.json_line import message_of
from cluster.cli.messages.line_template import LETTERS, template_format
from cluster.cli.messages.message_template import MessageTemplate, Template
from cluster.cli.messages.message_writer import for_terminal, text_format
from cluster.cli.messages.start import Last, StartOrLastType, StartType
from cluster.cli.stopping import TerminatedError, run_until_stopped
from cluster.load.line_sender import Labels, LineMessage
from cluster.message_json import json_format
from ledgermq import Message

NO_LABELS = Labels()


def message(
    value: bytes = b"value",
    key: bytes | None = None,
    tag: str | None = None,
    headers: tuple[tuple[str, bytes], ...] = (),
    look_up_keys: tuple[bytes, ...] = (),
) -> Message:
    return Message("orders", 3, 42, 1_000, 2_000, key, value, tag, headers, 7, look_up_keys)


texts = st.text(st.characters(exclude_categories=["Cs"]))
messages = st.builds(
    message,
    value=st.binary() | texts.map(str.encode),
    key=st.none() | st.binary() | texts.map(str.encode),
    tag=st.none() | texts.filter(bool),
    headers=st.lists(st.tuples(texts, st.binary() | texts.map(str.encode))).map(tuple),
    look_up_keys=st.lists(st.binary() | texts.map(str.encode)).map(tuple),
)


@given(messages)
def test_a_json_line_loses_nothing_of_a_message(sent: Message) -> None:
    line = json_format([sent])
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    got = message_of(line[:-1], NO_LABELS)
    assert got == LineMessage(
        sent.value, sent.key, sent.tag, sent.headers, sent.timestamp_ms, look_up_keys=sent.look_up_keys
    )


@given(messages)
def test_a_json_line_has_no_control_characters(sent: Message) -> None:
    line = json_format([sent]).decode()[:-1]
    assert not re.search("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", line)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff", "not UTF-8"),
        (b"[1]", "not a JSON object"),
        (b"{}", "no field value"),
        (b'{"value": 1}', "the field value must be a string"),
        (b'{"value": {"a": 1}}', "the field value must be a string"),
        (b'{"value": "a", "value_base64": "YQ=="}', "both value and value_base64"),
        (b'{"value_base64": "a"}', "value_base64 is not base64"),
        (b'{"value_base64": "\xc3\xa9"}', "value_base64 is not base64"),
        (b'{"value": "\\ud800"}', "not valid Unicode"),
        (b'{"value": "a", "keys": "b"}', "the field 'keys' is unknown"),
        (b'{"value": "a", "\\u001b[2J": "b"}', "the field '\\x1b[2J' is unknown"),
        (b'{"value": "a", "tag": 1}', "the field tag"),
        (b'{"value": "a", "timestamp_ms": 1.5}', "timestamp_ms"),
        (b'{"value": "a", "timestamp_ms": true}', "timestamp_ms"),
        (b'{"value": "a", "headers": [1]}', "the field headers must be a list"),
        (b'{"value": "a", "headers": "a=b"}', "the field headers must be a list"),
        (b'{"value": "a", "headers": [{"name": "a"}]}', "each header"),
        (b'{"value": "a", "headers": [{"name": "a", "value": "b", "more": 1}]}', "each header"),
        (b'{"value": "a", "look_up_keys": "b"}', "the field look_up_keys must be a list"),
        (b'{"value": "a", "look_up_keys": [1]}', "each look-up key must be a string"),
        (b'{"value": "a", "look_up_keys": [{"base64": "a"}]}', "look_up_keys_base64 is not base64"),
        (b'{"value": "a", "look_up_keys": [{"base64": 1}]}', "the field look_up_keys must be a string"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"timestamp_ms": ' + b"1" * 5_000 + b"}", "a number that is too long"),
    ],
)
def test_a_line_that_is_no_message_is_explained(line: bytes, said: str) -> None:
    reason = message_of(line, NO_LABELS)
    assert isinstance(reason, str)
    assert said in reason
    assert reason.isprintable()


def test_what_a_person_writes_as_json() -> None:
    labels = Labels(b"k", "t", 1, (("all", b"1"),))
    line = b'\xef\xbb\xbf{"value": "a", "headers": {"x": "y"}, "key": null, "queue": 9}\r'
    assert message_of(line, labels) == LineMessage(b"a", b"k", "t", (("x", b"y"), ("all", b"1")), None)
    own = message_of(b'{"value": "a", "key": "", "tag": "mine"}', labels)
    assert own == LineMessage(b"a", b"", "mine", (("all", b"1"),), None)


def test_a_message_without_a_key_has_no_key_separator() -> None:
    both = [message(b"1", key=b"k"), message(b"2"), message(b"3", key=b"")]
    assert text_format(b"\n", b" => ")(both) == b"k => 1\n2\n => 3\n"


def test_a_terminal_shows_control_characters_as_escapes() -> None:
    assert for_terminal("plain é\ttext\n".encode()) == "plain é\ttext\n".encode()
    assert for_terminal(b"\x1b]0;title\x07\x9b2J\xff\r") == rb"\x1b]0;title\x07\x9b2J\xff\r"
    assert for_terminal("\x9b2J \u202e".encode()) == rb"\x9b2J \u202e"
    hostile = message(b"\x1b[2J", key=b"\x07", tag="\x9b", headers=(("\x1b", b"\x1b"),))
    shown = template_format("%s%k%g%h", for_terminal)([hostile]) + text_format(b"", b"=", for_terminal)([hostile])
    assert shown.decode().isprintable()


def test_every_letter_of_the_template() -> None:
    one = message(b"value", b"key", "paid", (("a", b"1"), ("b", b"2")), (b"order-17", b"ann"))
    form = "|".join(f"%{letter}" for letter in LETTERS) + r"|%p\t\x41é\n"
    written = template_format(form)([one]).decode()
    assert written == "value|5|key|3|a=1,b=2|paid|order-17,ann|orders|3|42|orders:3:42|1000|2000|-1|%|3\tAé\n"
    assert template_format("%k,%K,%g,%h;")([message()]) == b",-1,,;"


@pytest.mark.parametrize("form", ["%x", "50%", "%", r"%s\x4", "\\"])
def test_a_wrong_template(form: str) -> None:
    with pytest.raises(ValueError, match=r"letter|escape"):
        template_format(form)


def test_made_messages() -> None:
    labels = Labels(None, "t", None, (("h", b"v"),))
    template = MessageTemplate(Template('{"n":{{count}},"id":"{{ id }}"}'), Template("k{{count}}"), labels)
    lists = list(template.messages(5, 2))
    assert [len(one) for one in lists] == [2, 2, 1]
    made = [one for part in lists for one in part]
    assert [json.loads(one.value)["n"] for one in made] == [1, 2, 3, 4, 5]
    assert len({json.loads(one.value)["id"] for one in made}) == 5
    assert [one.key for one in made] == [b"k1", b"k2", b"k3", b"k4", b"k5"]
    assert made[0][2:] == ("t", (("h", b"v"),), None, None, (), None)
    assert re.fullmatch(rb"2001-09-09T01:46:40.000Z 1000000000000", Template("{{time}} {{unix_ms}}").fill(1, 10**12))
    assert re.fullmatch(rb"[A-Za-z0-9]{20}", Template("{{random:20}}").fill(1, 0))
    assert not list(template.messages(0))


@pytest.mark.parametrize("text", ["{{counter}}", "{{random}}", "{{random:0}}", "{{random:9999999}}", "{{count:2}}"])
def test_an_unknown_placeholder(text: str) -> None:
    with pytest.raises(ValueError, match="is not a placeholder"):
        Template(text)


async def collected(lists: AsyncIterator[list[int]]) -> list[int]:
    return [item async for items in lists for item in items]


async def test_the_number_and_the_rate_are_limited() -> None:
    def lists() -> AsyncIterator[list[int]]:
        return in_turns(iter([[1, 2, 3], [4, 5], [6]]))

    assert await collected(limited(lists(), 4)) == [1, 2, 3, 4]
    assert await collected(limited(lists(), 0)) == []
    assert await collected(limited(lists(), 9)) == [1, 2, 3, 4, 5, 6]
    began = time.perf_counter()
    assert await collected(paced(lists(), 50)) == [1, 2, 3, 4, 5, 6]
    assert time.perf_counter() - began >= 5 / 50, "the first is due at once, and one each 20 ms"


@pytest.mark.parametrize(
    ("text", "start"),
    [("earliest", "earliest"), ("latest", "latest"), ("7", 7), ("-10", Last(10)), ("-0", Last(0))],
)
def test_starts(text: str, start: object) -> None:
    assert StartOrLastType().convert(text, None, None) == start


def test_an_age_is_a_time_before_now() -> None:
    found = StartType().convert("10m", None, None)
    assert isinstance(found, datetime)
    assert abs((datetime.now(UTC) - found).total_seconds() - 600) < 60
    long_ago = StartType().convert("999999999d", None, None)
    assert isinstance(long_ago, datetime)
    assert long_ago.year == 1970


@pytest.mark.parametrize("text", ["-", "--1", "-1m", "1w", "m", "9" * 30, "-" + "9" * 30])
def test_what_is_no_start(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a start"):
        StartOrLastType().convert(text, None, None)
    with pytest.raises(click.BadParameter):
        StartType().convert("-10", None, None)


def test_sigterm_cancels_the_work_and_waits_for_its_end() -> None:
    closed = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            closed.append(True)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(TerminatedError):
        run_until_stopped(work())
    assert closed
    assert signal.getsignal(signal.SIGTERM) is before


def test_work_that_ends_by_itself_returns_its_result() -> None:
    async def work() -> int:
        return 5

    assert run_until_stopped(work()) == 5
