"""The RocketMQ clients of a node: when one seems to be gone."""

from __future__ import annotations

import asyncio

import pytest

from ledger.broker.access.callers import ANYBODY
from ledger.rocketmq import sessions as sessions_module
from ledger.rocketmq.calls import FrontCall
from ledger.rocketmq.sessions import SILENT_S, FrontSession, FrontSessions

CALL = FrontCall("client", "JAVA", ANYBODY, is_tls=False, peer="ipv4:127.0.0.1:1", left_s=60.0)


@pytest.mark.parametrize("then", ["nothing", "a call", "another stream", "an end"])
async def test_a_client_whose_streams_have_ended_is_gone_unless_it_is_heard_again(
    then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions_module, "GONE_S", 0.01)
    now_s = 1.0
    sessions, gone = FrontSessions(lambda: now_s), list[FrontSession]()
    sessions.on_gone.append(gone.append)
    session = sessions.seen(CALL)
    session.streams["one"] = session.streams["two"] = asyncio.Queue()
    del session.streams["one"]
    sessions.stream_ended(session)
    await asyncio.sleep(0.05)
    assert gone == [], "a stream is left"
    del session.streams["two"]
    sessions.stream_ended(session)
    now_s = 2.0
    match then:
        case "a call":
            sessions.seen(CALL)
        case "another stream":
            session.streams["three"] = asyncio.Queue()
        case "an end":
            sessions.end(session)
    await asyncio.sleep(0.05)
    assert gone == ([session] if then == "nothing" else [])


async def test_a_client_is_silent_without_streams_and_without_heartbeats() -> None:
    now_s = 1.0
    sessions = FrontSessions(lambda: now_s)
    session = sessions.seen(CALL)
    session.streams["one"] = asyncio.Queue()
    now_s += 2 * SILENT_S
    assert not sessions.is_silent(session)
    session.streams.clear()
    assert sessions.is_silent(session)
    sessions.seen(CALL)
    assert not sessions.is_silent(session)
