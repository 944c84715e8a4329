"""Tests what editors and type checkers see of the clients: explicit settings, docstrings, and twins that are alike."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mypy import api as mypy

import ledgermq
from ledger.client.connection.environment import Environment
from ledger.client.connection.lifetime import within

TWINS = {
    name: f"Async{name}"
    for name in (
        "Admin",
        "Consumer",
        "GroupConsumer",
        "Producer",
        "PushConsumer",
        "Requester",
        "Responder",
        "SharedConsumer",
    )
}
CLIENTS = sorted({*TWINS, *TWINS.values()})
# A synchronous client starts in its constructor, and `close` has the arguments that `stop` has in the asyncio client.
STOPPING = ("start", "stop", "close", "aclose")
# The names of a method that stops a client.
STOPS = ("stop", "close", "aclose")
# A plain function in both, or a coroutine function in the asyncio client only.
ASYNC_WORDS = re.compile(
    r"\b(?:asyncio\.Future|concurrent\.futures\.Future|AsyncIterator|Iterator|AsyncTransaction|Transaction)\b"
)
NOWHERE = "127.0.0.1:1"


def public_members(client: type) -> Iterator[tuple[str, Any]]:
    for name, member in inspect.getmembers(client):
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
            yield name, member


def parameters(function: Callable[..., Any]) -> list[tuple[str, Any, Any, str]]:
    return [
        (one.name, one.kind, one.default, str(one.annotation))
        for one in inspect.signature(function).parameters.values()
    ]


@pytest.mark.parametrize("name", CLIENTS)
def test_every_setting_is_an_explicit_public_parameter(name: str) -> None:
    for parameter in inspect.signature(getattr(ledgermq, name)).parameters.values():
        assert parameter.kind is not inspect.Parameter.VAR_KEYWORD, parameter
        assert not parameter.name.startswith("_"), parameter
        assert parameter.annotation is not inspect.Parameter.empty, parameter


@pytest.mark.parametrize(("name", "twin"), TWINS.items())
def test_the_twins_take_the_same_settings(name: str, twin: str) -> None:
    assert parameters(getattr(ledgermq, name)) == parameters(getattr(ledgermq, twin))


@pytest.mark.parametrize(("name", "twin"), TWINS.items())
def test_the_synchronous_twin_has_what_the_asyncio_client_has(name: str, twin: str) -> None:
    ours = dict(public_members(getattr(ledgermq, name)))
    for method, theirs in public_members(getattr(ledgermq, twin)):
        if method in STOPPING:
            continue
        assert method in ours, f"{name} has no {method}"
        assert isinstance(ours[method], property) == isinstance(theirs, property), method
        if not isinstance(theirs, property):
            assert parameters(ours[method]) == parameters(theirs), method
            returned = [inspect.signature(one).return_annotation for one in (ours[method], theirs)]
            plain = [ASYNC_WORDS.sub("", text) for text in returned]
            assert plain[0] == plain[1], method

    assert parameters(ours["close"]) == parameters(getattr(ledgermq, twin).stop)


@pytest.mark.parametrize("name", CLIENTS)
def test_the_methods_that_stop_a_client_take_the_same_arguments(name: str) -> None:
    client = getattr(ledgermq, name)
    first, *others = (parameters(getattr(client, stop)) for stop in STOPS if hasattr(client, stop))
    assert others
    assert all(other == first for other in others)


@pytest.mark.parametrize("name", ["GroupConsumer", "PushConsumer", "SharedConsumer", "Responder"])
async def test_all_methods_that_stop_a_client_pass_the_time_limit_on(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, twin = getattr(ledgermq, name), getattr(ledgermq, f"Async{name}")
    limits: list[float] = []

    async def stop(_: object, timeout_s: float) -> None:
        limits.append(timeout_s)

    monkeypatch.setattr(twin, "stop", stop)
    client = twin.__new__(twin)
    await client.close(1)
    await client.aclose(timeout_s=2)
    monkeypatch.setattr(plain, "close", lambda _, timeout_s: limits.append(timeout_s))
    plain.__new__(plain).stop(3)
    assert limits == [1, 2, 3]


@pytest.mark.parametrize("name", sorted({*ledgermq.__all__} - {"__version__", "errors"}))
def test_every_public_name_and_method_has_a_docstring(name: str) -> None:
    public = getattr(ledgermq, name)
    assert inspect.getdoc(public), name
    if not inspect.isclass(public) or public.__module__.partition(".")[0] not in ("ledger", "ledgermq"):
        return
    for member_name, member in inspect.getmembers(public):
        if member_name.startswith("_") or getattr(member, "__objclass__", public) is not public:
            continue
        if isinstance(member, property) or (callable(member) and hasattr(member, "__code__")):
            assert inspect.getdoc(member), f"{name}.{member_name}"


def test_the_twins_of_the_admin_client_say_the_same() -> None:
    for name, member in public_members(ledgermq.Admin):
        if name not in ("close", "stop"):
            assert inspect.getdoc(member) == inspect.getdoc(getattr(ledgermq.AsyncAdmin, name)), name


@pytest.mark.parametrize(
    ("name", "arguments", "wrong", "right"),
    [
        ("Producer", {}, "lingerms", "linger_ms"),
        ("AsyncProducer", {}, "batch_byte", "batch_bytes"),
        ("Consumer", {}, "strat", "start"),
        ("GroupConsumer", {"group": "g"}, "session_timeout", "session_timeout_ms"),
        ("PushConsumer", {"group": "g", "listener": print}, "concurency", "concurrency"),
        ("AsyncPushConsumer", {"group": "g", "listener": print}, "max_attemps", "max_attempts"),
        ("Admin", {}, "pasword", "password"),
        ("Producer", {}, "partitioner", "queue_selector"),
        ("Producer", {}, "max_retries", "retries"),
        ("GroupConsumer", {"group": "g"}, "auto_offset_reset", "start"),
        ("GroupConsumer", {"group": "g"}, "max_poll_interval_ms", "release_timeout_ms"),
        ("PushConsumer", {"group": "g", "listener": print}, "max_retries", "max_attempts"),
    ],
)
def test_a_wrong_setting_names_the_class_and_the_right_setting(
    name: str, arguments: dict[str, Any], wrong: str, right: str
) -> None:
    with pytest.raises(TypeError) as raised:
        getattr(ledgermq, name)(bootstrap_servers=NOWHERE, **arguments, **{wrong: 5})
    assert str(raised.value) == f"{name} has no setting {wrong}: did you mean {right}?"


def test_a_setting_like_no_other_gets_the_list_of_settings() -> None:
    with pytest.raises(
        TypeError, match=r"^AsyncAdmin has no setting xyz\. Its settings are bootstrap_servers, client_id"
    ):
        ledgermq.AsyncAdmin(NOWHERE, xyz=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("setting", ["group", "group_id", "listener"])
def test_a_setting_of_groups_names_the_consumers_in_groups(setting: str) -> None:
    with pytest.raises(TypeError) as raised:
        ledgermq.Consumer("orders", bootstrap_servers=NOWHERE, **{setting: "g"})  # type: ignore[arg-type]
    assert str(raised.value) == (
        f"Consumer has no setting {setting}: a member of a consumer group is a GroupConsumer, PushConsumer or "
        "SharedConsumer."
    )


@pytest.mark.parametrize("use", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_client_cannot_be_pickled_or_copied(use: Callable[[object], object]) -> None:
    with pytest.raises(
        TypeError, match=r"^AsyncAdmin cannot be pickled or copied: make a new AsyncAdmin in each process"
    ):
        use(ledgermq.AsyncAdmin(NOWHERE))


def test_a_client_within_another_environment_keeps_its_name_and_its_parent() -> None:
    environment = Environment()
    made = within(environment, ledgermq.AsyncAdmin)(NOWHERE)
    assert isinstance(made, ledgermq.AsyncAdmin)
    assert type(made).__name__ == "AsyncAdmin"
    assert made._client.environment is environment


PROGRAM = """
import asyncio
from ledgermq import {names}

producer = Producer("a:1", lingerms=5)  # 1
consumer = Consumer("orders", bootstrap_servers="a:1", strat="earliest")  # 2
members = GroupConsumer("orders", group="g", bootstrap_servers="a:1", session_timeout=5)  # 3
push = AsyncPushConsumer("orders", group="g", listener=print, bootstrap_servers="a:1", concurency=2)  # 4
admin = Admin("a:1", pasword="x")  # 5
right = AsyncPushConsumer("orders", group="g", listener=lambda message: None, bootstrap_servers="a:1", concurrency=2)
"""

HOOKS = """
import asyncio
import json
from ledgermq import AsyncConsumer, AsyncProducer, Consumer, Message, Producer, PushConsumer


def encode(number: int) -> bytes:
    return b"%d" % number


def print_key(message: Message) -> None:
    print(message.key, message.value.hex())


numbers = Producer("a:1", serializer=encode)
numbers.send("orders", 1)
Producer("a:1", serializer=json.dumps).send("orders", {"n": 1})
AsyncProducer[str]("a:1", encoding="utf-8").send_nowait("orders", "text")
raw = next(Consumer(["orders"], bootstrap_servers="a:1")).value.hex()
number = next(Consumer("orders", bootstrap_servers="a:1", deserializer=int)).value + 1
PushConsumer("orders", group="g", bootstrap_servers="a:1", listener=print_key)
numbers.send("orders", "1")  # 1
next(Consumer("orders", bootstrap_servers="a:1", deserializer=int)).value.hex()  # 2
PushConsumer("orders", group="g", bootstrap_servers="a:1", deserializer=int, listener=print_key)  # 3
Producer("a:1").send("orders", "text")  # 4
"""


def test_mypy_knows_the_types_of_values(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(HOOKS)
    found, _, _ = mypy.run(["--strict", "--follow-imports=silent", "--no-error-summary", str(program)])
    wrong = [number for number, line in enumerate(HOOKS.splitlines(), 1) if re.search(r"# \d$", line)]
    assert sorted({int(line.split(":")[1]) for line in found.splitlines() if ": error: " in line}) == wrong, found


def test_a_wrong_setting_is_an_error_of_mypy(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(names=", ".join(CLIENTS)))
    found, _, status = mypy.run(["--strict", "--follow-imports=silent", "--no-error-summary", str(program)])
    lines = [line for line in found.splitlines() if ": error: " in line]
    assert (status, len(lines)) == (1, 5), found
    assert all(
        f'did you mean "{right}"?' in line
        for right, line in zip(
            ("linger_ms", "start", "session_timeout_ms", "concurrency", "password"), lines, strict=True
        )
    ), found
