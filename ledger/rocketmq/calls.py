"""Who makes a call of RocketMQ's protocol, and how: the metadata of the call."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from grpc import aio

from ledger.broker.access.callers import Caller
from ledger.broker.access.places import holder_of
from ledger.errors import LedgerError
from ledger.rocketmq.refusals import FrontRefusal, refusal_of
from ledger.rocketmq.v2 import definition_pb2 as pb

CLIENT_ID, LANGUAGE, VERSION = "x-mq-client-id", "x-mq-language", "x-mq-client-version"
AUTHORIZATION, DATE = "authorization", "x-mq-date-time"
MAX_CLIENT_ID_CHARACTERS = 255
# How long before the client gives up an answer must be on its way.
ANSWER_MS = 500
_WANTED = frozenset({CLIENT_ID, LANGUAGE, VERSION, AUTHORIZATION, DATE})
# What Node's client says of itself, in old and in new versions.
_NODE = frozenset({"HTTP", "NODE_JS"})
_PYTHON = "PYTHON"
_JAVA = "JAVA"
# Java's first client that knows messages with a priority.
_JAVA_WITH_PRIORITIES = (5, 2)
# The clients of these languages take a type of message that they do not know for a number.
_TAKES_EACH_TYPE = frozenset({*_NODE, _PYTHON, "GO", "GOLANG", "RUST", "CPP"})

_VERSION = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})(?![0-9])")

Context = aio.ServicerContext[Any, Any]
# Proves a caller by the headers of its call: (headers, whether the port has TLS) -> caller. Raises LedgerError.
Prove = Callable[[Mapping[str, str], bool], Caller]


@dataclass(frozen=True, slots=True)
class FrontCall:
    """`peer` is the address of the connection, as gRPC writes it. `left_s` is the time until the client gives up.
    `version` is what the client says of itself, such as 5.2.0."""

    client_id: str
    language: str
    caller: Caller
    is_tls: bool
    peer: str
    left_s: float
    version: str = ""

    @property
    def holder(self) -> str:
        """Who holds what this call takes of the node's limits."""
        return holder_of(self.caller, self.peer)

    @property
    def is_node_js(self) -> bool:
        return self.language in _NODE

    @property
    def is_java(self) -> bool:
        return self.language == _JAVA

    @property
    def is_python(self) -> bool:
        return self.language == _PYTHON

    @property
    def knows_priorities(self) -> bool:
        """Return True if a route for this client may name the message type PRIORITY. Clients of Java before 5.2, and of
        .NET, fail at a type that they do not know."""
        if self.is_java:
            return _numbers_of(self.version) >= _JAVA_WITH_PRIORITIES
        return self.language in _TAKES_EACH_TYPE


def front_call(context: Context, prove: Prove, *, is_tls: bool) -> FrontCall:
    """Return what the metadata of a call says. Raises FrontRefusal."""
    headers = {
        str(name): value.decode(errors="replace") if isinstance(value, bytes) else str(value)
        for name, value in context.invocation_metadata() or ()
        if name in _WANTED
    }
    client_id = headers.get(CLIENT_ID, "")
    if not client_id.strip():
        raise FrontRefusal(pb.CLIENT_ID_REQUIRED, f"the call has no header {CLIENT_ID}")
    if len(client_id) > MAX_CLIENT_ID_CHARACTERS:
        raise FrontRefusal(
            pb.CLIENT_ID_REQUIRED, f"the client id has more than {MAX_CLIENT_ID_CHARACTERS} characters: give a shorter"
        )
    try:
        caller = prove(headers, is_tls)
    except LedgerError as error:
        raise refusal_of(error) from error
    left_s = context.time_remaining()
    return FrontCall(
        client_id,
        headers.get(LANGUAGE, "").upper(),
        caller,
        is_tls,
        context.peer(),
        float("inf") if left_s is None else left_s,
        headers.get(VERSION, ""),
    )


def _numbers_of(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version, or none if it has no such form."""
    found = _VERSION.match(version)
    return (int(found[1]), int(found[2])) if found else ()
