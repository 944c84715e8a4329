"""Parses messages from the text that `network.describe` writes, so that a scenario can write a message by hand.

Fields that the text does not show get their default values.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from raft.core import (
    Append,
    AppendResponse,
    CommittedEntry,
    Heartbeat,
    HeartbeatResponse,
    RaftMessage,
    TermRun,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from tests.raft.network import Entry, Packet


def parse(line: str) -> Packet:
    """Return the message that this line describes. If it carries entries, they have the message's term."""
    head = re.fullmatch(r"(\d+)->(\d+) (.*), term (\d+)(.*)|(\d+)->(\d+) (pre-)?vote\? term (\d+), (.*)", line)
    assert head, f"no message reads so: {line}"
    if head[9]:
        sender, receiver, term = int(head[6]), int(head[7]), int(head[9])
        return Packet(_vote_request(sender, receiver, term, bool(head[8]), head[10]))
    sender, receiver, term = int(head[1]), int(head[2]), int(head[4])
    for pattern, make in _KINDS.items():
        if found := re.fullmatch(pattern, head[3] + head[5]):
            message = make(sender, receiver, term, *map(int, found.groups()))
            return Packet(message, _entries(message))
    raise AssertionError(f"no message reads so: {line}")


def _vote_request(sender: int, receiver: int, term: int, pre: bool, rest: str) -> VoteRequest:
    found = re.fullmatch(r"log (\d+)/(\d+)(, by transfer)?(, from everybody)?", rest)
    assert found, f"no request for a vote reads so: {rest}"
    index, last_term = int(found[1]), int(found[2])
    return VoteRequest(
        sender, receiver, term, index, last_term, pre=pre, transfer=bool(found[3]), unanimous=bool(found[4])
    )


def _vote(*, granted: bool, pre: bool) -> Callable[[int, int, int], VoteResponse]:
    return lambda sender, receiver, term: VoteResponse(sender, receiver, term, granted, pre)


def _heartbeat(sender: int, receiver: int, term: int, number: int, commit: int) -> Heartbeat:
    return Heartbeat(sender, receiver, term, commit, number)


def _append(
    sender: int, receiver: int, term: int, first: int, last: int, prev: int, prev_term: int, commit: int
) -> Append:
    assert first == prev + 1, "an Append continues the log"
    runs = (TermRun(first, term),) if last > prev else ()
    return Append(sender, receiver, term, prev, prev_term, runs, last, commit)


def _question(sender: int, receiver: int, term: int, prev: int, prev_term: int, commit: int) -> Append:
    return Append(sender, receiver, term, prev, prev_term, (), prev, commit)


def _claim(sender: int, receiver: int, term: int, index: int, index_term: int) -> AppendResponse:
    return AppendResponse(sender, receiver, term, rejected=True, contradicted=CommittedEntry(index, index_term))


def _refusal(sender: int, receiver: int, term: int, index: int, hint: int, hint_term: int) -> AppendResponse:
    return AppendResponse(sender, receiver, term, 0, True, index, hint, hint_term)


_KINDS: dict[str, Callable[..., RaftMessage]] = {
    "vote yes": _vote(granted=True, pre=False),
    "vote no": _vote(granted=False, pre=False),
    "pre-vote yes": _vote(granted=True, pre=True),
    "pre-vote no": _vote(granted=False, pre=True),
    r"heartbeat (\d+), commit (\d+)": _heartbeat,
    r"heard (\d+)": HeartbeatResponse,
    "stand now": TimeoutNow,
    r"append (\d+)\.\.(\d+) after (\d+)/(\d+), commit (\d+)": _append,
    r"append nothing after (\d+)/(\d+), commit (\d+)": _question,
    r"not at (\d+), try (\d+)/(\d+)": _refusal,
    r"has committed (\d+)/(\d+)": _claim,
    r"holds (\d+)": AppendResponse,
}


def _entries(message: RaftMessage) -> tuple[Entry, ...]:
    if not isinstance(message, Append):
        return ()
    indexes = range(message.prev_index + 1, message.last_index + 1)
    return tuple(Entry(message.term, f"{message.term}.{index}") for index in indexes)
