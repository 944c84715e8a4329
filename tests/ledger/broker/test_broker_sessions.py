"""Tokens belong to connections, and end."""

from __future__ import annotations

from ledger.broker.access.callers import Caller
from ledger.broker.access.sessions import MAX_SESSIONS_OF_A_CONNECTION, SESSION_S, Sessions

ALICE, BOB = Caller("alice", 3), Caller("bob", 4)
HERE, THERE = "ipv4:127.0.0.1:40000", "ipv4:127.0.0.1:40001"


class Clock:
    now_ms = 0.0

    def __call__(self) -> float:
        return self.now_ms


def test_a_token_belongs_to_its_connection() -> None:
    sessions = Sessions(Clock())
    token = sessions.open(ALICE, HERE)
    assert sessions.caller(token, HERE) == ALICE
    assert sessions.caller(token, THERE) is None
    assert sessions.caller(token[:-1], HERE) is None
    assert sessions.caller("", HERE) is None


def test_users_can_share_a_connection() -> None:
    sessions = Sessions(Clock())
    alice, bob = sessions.open(ALICE, HERE), sessions.open(BOB, HERE)
    assert sessions.caller(alice, HERE) == ALICE
    assert sessions.caller(bob, HERE) == BOB


def test_a_token_ends() -> None:
    clock = Clock()
    sessions = Sessions(clock)
    token = sessions.open(ALICE, HERE)
    clock.now_ms = SESSION_S * 1000
    assert sessions.caller(token, HERE) is None
    sessions.open(BOB, THERE)
    assert len(sessions) == 1, "the expired session is gone"


def test_the_oldest_session_ends_when_there_are_too_many() -> None:
    sessions = Sessions(Clock(), max_sessions=3)
    first = sessions.open(ALICE, HERE)
    later = [sessions.open(ALICE, f"ipv4:127.0.0.1:{port}") for port in range(3)]
    assert len(sessions) == 3
    assert sessions.caller(first, HERE) is None
    assert sessions.caller(later[0], "ipv4:127.0.0.1:0") == ALICE


def test_one_connection_cannot_end_the_sessions_of_others() -> None:
    sessions = Sessions(Clock())
    other = sessions.open(BOB, THERE)
    for _ in range(2 * MAX_SESSIONS_OF_A_CONNECTION):
        sessions.open(ALICE, HERE)
    assert len(sessions) == MAX_SESSIONS_OF_A_CONNECTION + 1
    assert sessions.caller(other, THERE) == BOB


def test_sessions_end_with_their_connection() -> None:
    sessions = Sessions(Clock())
    tokens = [sessions.open(ALICE, HERE), sessions.open(BOB, HERE)]
    other = sessions.open(BOB, THERE)
    sessions.end({HERE, "ipv4:127.0.0.1:1"})
    assert [sessions.caller(token, HERE) for token in tokens] == [None, None]
    assert sessions.caller(other, THERE) == BOB
    assert sessions.peers() == {THERE}
    assert len(sessions) == 1
