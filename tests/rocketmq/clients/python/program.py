"""Drives the official Python client by commands on standard input. The protocol is in ../README.md.

The client's library blocks, so each command runs in a thread of its own.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from itertools import count
from typing import Any

from load import drain, flood
from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)
from rocketmq.grpc_protocol import FilterType

_CAN = ["push", "simple", "transaction", "recall", "invisible", "tls", "credentials", "retries"]
_RESOLUTIONS = {
    "commit": TransactionResolution.COMMIT,
    "rollback": TransactionResolution.ROLLBACK,
    "unknown": TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED,
}
_PUSH_THREADS = 20
_COMMANDS_AT_ONCE = 64


class Checker(TransactionChecker):  # type: ignore[misc]
    def __init__(self, answer: str) -> None:
        self._answer = answer

    def check(self, message: Message) -> int:
        say({"event": "checked", "body": message.body.decode(), "answer": self._answer})
        return int(_RESOLUTIONS[self._answer])


class Listener(MessageListener):  # type: ignore[misc]
    def __init__(self, program: Program, client: str, fail_times: int) -> None:
        self._program, self._client, self._fail_times = program, client, fail_times

    def consume(self, message: Message) -> ConsumeResult:
        success = message.delivery_attempt > self._fail_times
        seen = self._program.seen(message)
        say({"event": "consumed", "client": self._client, "message": seen, "success": success})
        return ConsumeResult.SUCCESS if success else ConsumeResult.FAILURE


class Program:
    """The clients by name, and the received messages by number."""

    def __init__(self) -> None:
        self._clients: dict[str, Any] = {}
        self._messages: dict[int, Message] = {}
        self._numbers = count(1)

    def do(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return getattr(self, f"do_{request['do']}")(request) or {}

    def do_hello(self, _: Mapping[str, Any]) -> dict[str, Any]:
        return {"language": "python", "version": version("rocketmq-python-client"), "can": _CAN}

    def do_producer(self, request: Mapping[str, Any]) -> None:
        checker = Checker(request["check"]) if request.get("check") else None
        tls = bool(request.get("tls"))
        self._start(request, Producer(_configuration(request), request["topics"], checker, tls_enable=tls))

    def do_simple(self, request: Mapping[str, Any]) -> None:
        consumer = SimpleConsumer(
            _configuration(request),
            request["group"],
            _subscriptions(request),
            request.get("await_s", 5),
            tls_enable=bool(request.get("tls")),
        )
        self._start(request, consumer)

    def do_push(self, request: Mapping[str, Any]) -> None:
        consumer = PushConsumer(
            _configuration(request),
            request["group"],
            Listener(self, request["name"], request.get("fail_times", 0)),
            _subscriptions(request),
            consumption_thread_count=request.get("threads", _PUSH_THREADS),
            tls_enable=bool(request.get("tls")),
        )
        self._start(request, consumer)

    def _start(self, request: Mapping[str, Any], client: Any) -> None:
        client.startup()
        self._clients[request["name"]] = client

    def do_send(self, request: Mapping[str, Any]) -> dict[str, Any]:
        receipt = self._clients[request["client"]].send(_message(request))
        return {"message_id": receipt.message_id, "recall_handle": receipt.recall_handle or None}

    def do_transaction(self, request: Mapping[str, Any]) -> dict[str, Any]:
        producer = self._clients[request["client"]]
        transaction = producer.begin_transaction()
        receipt = producer.send(_message(request), transaction)
        if request["end"] == "commit":
            transaction.commit()
        elif request["end"] == "rollback":
            transaction.rollback()
        return {"message_id": receipt.message_id}

    def do_recall(self, request: Mapping[str, Any]) -> dict[str, Any]:
        producer = self._clients[request["client"]]
        return {"message_id": producer.recall_message(request["topic"], request["recall_handle"])}

    def do_receive(self, request: Mapping[str, Any]) -> dict[str, Any]:
        messages = self._clients[request["client"]].receive(request["max"], request["invisible_s"])
        return {"messages": [self.seen(message) for message in messages or []]}

    def do_ack(self, request: Mapping[str, Any]) -> None:
        self._clients[request["client"]].ack(self._messages[request["handle"]])

    def do_invisible(self, request: Mapping[str, Any]) -> None:
        consumer = self._clients[request["client"]]
        consumer.change_invisible_duration(self._messages[request["handle"]], request["seconds"])

    def do_flood(self, request: Mapping[str, Any]) -> dict[str, Any]:
        told: dict[str, Any] = flood(self._clients[request["client"]], request)
        return told

    def do_drain(self, request: Mapping[str, Any]) -> dict[str, Any]:
        client = request["client"]

        def acknowledged(message: Message) -> None:
            say({"event": "consumed", "client": client, "message": self.seen(message), "success": True})

        told: dict[str, Any] = drain(self._clients[client], request, acknowledged if request.get("events") else None)
        return told

    def do_close(self, request: Mapping[str, Any]) -> None:
        self._clients.pop(request["client"]).shutdown()

    def seen(self, message: Message) -> dict[str, Any]:
        """Return the message as JSON, and remember it by its number."""
        number = next(self._numbers)
        self._messages[number] = message
        return {
            "handle": number,
            "topic": message.topic,
            "body": message.body.decode(),
            "message_id": message.message_id,
            "tag": message.tag or None,
            "keys": sorted(message.keys),
            "properties": dict(message.properties),
            "message_group": message.message_group or None,
            "attempt": message.delivery_attempt,
        }


def _configuration(request: Mapping[str, Any]) -> ClientConfiguration:
    credentials = Credentials(request.get("access_key") or "", request.get("secret_key") or "")
    return ClientConfiguration(request["endpoints"], credentials, request_timeout=request.get("timeout_s", 3))


def _subscriptions(request: Mapping[str, Any]) -> dict[str, FilterExpression]:
    return {
        topic: FilterExpression(told["sql"], FilterType.SQL)
        if "sql" in told
        else FilterExpression(told.get("tag", "*"))
        for topic, told in request["subscriptions"].items()
    }


def _message(request: Mapping[str, Any]) -> Message:
    message = Message()
    message.topic, message.body = request["topic"], request["body"].encode()
    if request.get("tag"):
        message.tag = request["tag"]
    for key in request.get("keys") or []:
        message.keys = key
    for name, value in (request.get("properties") or {}).items():
        message.add_property(name, value)
    if request.get("message_group"):
        message.message_group = request["message_group"]
    if request.get("deliver_at_ms"):
        message.delivery_timestamp = request["deliver_at_ms"] // 1000  # the client takes seconds
    return message


_SAYS = threading.Lock()


def say(told: Mapping[str, Any]) -> None:
    with _SAYS:
        print(json.dumps(told), flush=True)


def _answer(program: Program, request: Mapping[str, Any]) -> None:
    try:
        say({"id": request["id"], "ok": True, **program.do(request)})
    except Exception as error:  # whatever the client raises is the answer
        code = getattr(error, "code", None)
        text = f"{type(error).__name__}: {error}"
        say({"id": request["id"], "ok": False, "error": text, "code": code if isinstance(code, int) else None})


def _requests() -> Iterator[Mapping[str, Any]]:
    for line in sys.stdin:
        yield json.loads(line)


def main() -> None:
    program = Program()
    with ThreadPoolExecutor(_COMMANDS_AT_ONCE) as pool:
        for request in _requests():
            pool.submit(_answer, program, request)
        os._exit(0)  # a client that still runs must not keep the process


if __name__ == "__main__":
    main()
