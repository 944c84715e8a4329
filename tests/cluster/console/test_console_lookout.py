"""A question is asked once for all browsers of a user, at most as often as its answers allow, and not for nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from cluster.console import lookout, resends, watched
from cluster.console.clients import ConsoleClients
from cluster.console.lookout import Lookout, Lookouts
from cluster.console.resends import Resends
from cluster.dead_letters import Resent
from ledger.client.connection.security import Security
from ledger.errors import NoLeaderError, UnavailableError


class Question:
    """Counts how often it is asked. `error` is raised instead of an answer."""

    def __init__(self) -> None:
        self.asked = 0
        self.error: Exception | None = None

    async def ask(self) -> int:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return self.asked


async def test_all_browsers_share_one_question() -> None:
    question, lookouts = Question(), Lookouts()
    first = await lookouts.of(("token", "groups"), question.ask, 0.001)
    second = await lookouts.of(("token", "groups"), question.ask, 0.001)
    assert first is second
    with first.watched(), second.watched():
        turn = await first.next(0)
        assert turn == question.asked == first.answer
    other = await lookouts.of(("other token", "groups"), question.ask, 0.001)
    assert other is not first
    await lookouts.close()


async def test_a_failure_keeps_the_last_answer() -> None:
    question = Question()
    looking = Lookout(question.ask, 0.001)
    with looking.watched():
        turn = await looking.next(0)
        question.error = NoLeaderError("shard 0 has no leader")
        while not looking.error:
            turn = await looking.next(turn)
        assert looking.error == "shard 0 has no leader"
        assert looking.answer is not None
        question.error = ValueError("a defect")
        while "the log of the node" not in looking.error:
            turn = await looking.next(turn)
        question.error = None
        while looking.error:
            turn = await looking.next(turn)
    await looking.stop()


async def test_nobody_is_asked_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "LINGER_S", 0.0)
    question = Question()
    looking = Lookout(question.ask, 0.001)
    with looking.watched():
        await looking.next(0)
    task = looking._task
    assert task is not None
    await asyncio.wait_for(task, 5)
    asked = question.asked
    with looking.watched():  # it begins again
        await looking.next(looking.turn)
    assert question.asked > asked
    await looking.stop()


async def test_a_slow_answer_makes_a_long_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def record(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    async def slow() -> int:
        await sleep(0.05)
        return 1

    monkeypatch.setattr(watched.asyncio, "sleep", record)  # type: ignore[attr-defined]
    looking = Lookout(slow, 0.01)
    with looking.watched():
        await looking.next(0)
        await looking.next(1)
    await looking.stop()
    assert pauses[0] >= 0.05 * lookout.PAUSE_RATIO


async def test_an_answer_that_does_not_come_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookout, "ANSWER_S", 0.01)

    async def never() -> int:
        await asyncio.Event().wait()
        return 0

    looking = Lookout(never, 0.001)
    with looking.watched():
        await looking.next(0)
    assert "took longer than" in looking.error
    await looking.stop()


async def test_lookouts_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookout, "MAX_LOOKOUTS", 3)
    question, lookouts = Question(), Lookouts()
    found = [await lookouts.of(number, question.ask) for number in range(3)]
    with pytest.raises(UnavailableError, match="3 pages are open"):
        await lookouts.of(3, question.ask)
    found[0]._unwatched_s -= watched.LINGER_S + 1  # nobody has looked at it for a while
    assert await lookouts.of(3, question.ask) is not found[0]
    await lookouts.close()


class Letters:
    """Dead letters whose resend takes until `end` is set."""

    def __init__(self) -> None:
        self.end = asyncio.Event()
        self.calls = 0

    async def resend(self, most: int | None, resent: Resent) -> None:
        self.calls += 1
        resent.sent["orders"] += 2
        await self.end.wait()
        if self.calls == 2:
            raise NoLeaderError("shard 0 has no leader")


async def test_resends_are_bounded_and_tell_their_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resends, "MAX_RUNNING", 2)
    monkeypatch.setattr(resends, "MAX_KEPT", 2)
    letters = Letters()
    jobs = Resends(ConsoleClients(list, Security()))

    async def found(token: str, group: str) -> Letters:
        return letters

    monkeypatch.setattr(jobs, "letters", found)
    first, second = await jobs.begin("t", "a"), await jobs.begin("t", "b")
    assert await jobs.begin("t", "a") is first, "a second press of the button begins nothing"
    with pytest.raises(UnavailableError, match="2 resends run"):
        await jobs.begin("t", "c")
    assert jobs.find("another login", "a") is None
    letters.end.set()
    assert first.task is not None
    assert second.task is not None
    await asyncio.gather(first.task, second.task)
    assert [(each.is_running, each.resent.sent.total(), each.error) for each in (first, second)] == [
        (False, 2, ""), (False, 2, "shard 0 has no leader"),
    ]  # fmt: skip
    for group in ("c", "d"):
        task = (await jobs.begin("t", group)).task
        assert task is not None
        await task
    assert jobs.find("t", "a") is None, "only the newest outcomes are kept"
    await jobs.close()


def found_when(is_found: asyncio.Event, letters: Letters) -> Callable[[str, str], Awaitable[Letters]]:
    """Return a search for dead letters that ends when `is_found` is set."""

    async def found(token: str, group: str) -> Letters:
        await is_found.wait()
        return letters

    return found


async def test_requests_at_the_same_time_begin_one_resend_and_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resends, "MAX_RUNNING", 1)
    letters, is_found = Letters(), asyncio.Event()
    jobs = Resends(ConsoleClients(list, Security()))
    monkeypatch.setattr(jobs, "letters", found_when(is_found, letters))
    begun = [asyncio.create_task(jobs.begin("t", "a")) for _ in range(2)]
    other = asyncio.create_task(jobs.begin("t", "b"))
    await asyncio.sleep(0)
    is_found.set()
    first, second = await asyncio.gather(*begun)
    assert first is second
    with pytest.raises(UnavailableError, match="1 resends run"):
        await other
    await asyncio.sleep(0)
    assert letters.calls == 1
    await jobs.close()
    assert first.task is not None
    assert first.task.cancelled()


async def test_a_resend_that_cannot_begin_leaves_the_outcome_of_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resends, "MAX_RUNNING", 1)
    letters = Letters()
    letters.end.set()
    jobs = Resends(ConsoleClients(list, Security()))
    answers: list[Letters | NoLeaderError] = [letters, NoLeaderError("a"), NoLeaderError("b"), letters]

    async def found(token: str, group: str) -> Letters:
        answer = answers.pop(0)
        if isinstance(answer, NoLeaderError):
            raise answer
        return answer

    monkeypatch.setattr(jobs, "letters", found)
    first = await jobs.begin("t", "a")
    assert first.task is not None
    await first.task
    for group in ("a", "b"):
        with pytest.raises(NoLeaderError):
            await jobs.begin("t", group)
    assert jobs.find("t", "a") is first
    assert jobs.find("t", "b") is None
    await jobs.begin("t", "b")  # the failed ones do not count as running
    await jobs.close()


async def test_no_resend_begins_after_the_close(monkeypatch: pytest.MonkeyPatch) -> None:
    letters, is_found = Letters(), asyncio.Event()
    jobs = Resends(ConsoleClients(list, Security()))
    monkeypatch.setattr(jobs, "letters", found_when(is_found, letters))
    beginning = asyncio.create_task(jobs.begin("t", "a"))
    await asyncio.sleep(0)
    await jobs.close()
    is_found.set()
    with pytest.raises(UnavailableError, match="This node stops"):
        await beginning
    assert letters.calls == 0
    assert jobs.find("t", "a") is None
