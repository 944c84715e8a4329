"""Simulated RPCs: the results that a client gets for responses, deadlines, broken connections and aborted streams."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from random import Random
from typing import Any

import grpc
import pytest
from grpc import aio

from chaos.sim.consumers.member_ear import MemberEar, OverheardChannel
from chaos.sim.engine.links import Conditions
from chaos.sim.engine.loop import SimLoop
from chaos.sim.engine.network import Network
from chaos.sim.engine.node_life import Life
from chaos.sim.engine.rpc import SimChannel
from chaos.sim.engine.rpc_server import Calls, Context, Handler, NoServer

NODE, CLIENT = 1, 100


class Broker:
    """Handlers that act as their request says."""

    def __init__(self) -> None:
        self.cancelled = 0
        self.asked: list[object] = []

    async def fetch(self, request: Any, context: Context) -> object:
        self.asked.append(request)
        try:
            await asyncio.sleep(request)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return f"slept {request}"

    async def produce(self, _: None, context: Context) -> None:
        while (request := await context.read()) != "end":
            if request == "abort":
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "too much")
            await context.write(request.upper())


class Rig:
    def __init__(self) -> None:
        self.loop = SimLoop()
        self.network = Network(self.loop, Random(1), Conditions(delay_ms=1.0, spread_ms=1.0, detect_ms=500.0))
        self.broker = Broker()
        self.client = Life(self.loop, lambda: None)
        self.start_node()
        self.channel = SimChannel(
            self.client, self.network, CLIENT, NODE, lambda: NoServer() if self.node.over else self.calls
        )

    def start_node(self) -> None:
        handlers: dict[str, Handler] = {"Fetch": self.broker.fetch, "Produce": self.broker.produce}
        self.node = Life(self.loop, lambda: None)
        self.calls = Calls(self.node, NODE, handlers.__getitem__)
        self.network.up(NODE)

    def kill_node(self) -> None:
        self.node.end()
        self.node.bury()
        self.network.down(NODE)

    def run(self, work: Coroutine[Any, Any, Any], seconds: float = 60.0) -> Any:
        """Run a coroutine in the client's process."""
        tasks: list[asyncio.Task[Any]] = []
        self.client.deliver(lambda: tasks.append(self.client.create_task(work)))
        self.loop.run_until(self.loop.time() + seconds)
        assert not self.loop.errors
        return tasks[0].result()


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    for life in (rig.client, rig.node):
        life.end()
        life.bury()


async def code_of(call: Any) -> grpc.StatusCode:
    with pytest.raises(aio.AioRpcError) as caught:
        await call
    code: grpc.StatusCode = caught.value.code()
    return code


async def failing(rig: Rig, request: float) -> grpc.StatusCode:
    return await code_of(rig.channel.stub.Fetch(request, timeout=50))


def test_an_answer_comes_back(rig: Rig) -> None:
    async def ask() -> object:
        return await rig.channel.stub.Fetch(2.5, timeout=5)

    assert rig.run(ask()) == "slept 2.5"


class Ear(MemberEar):
    """Notes the responses that the client is said to have seen."""

    def __init__(self) -> None:
        super().__init__(lambda: 0.0)
        self.heard: list[object] = []

    def answered(self, request: Any, response: Any) -> None:
        self.heard.append(response)


def test_an_answer_that_comes_in_the_turn_in_which_the_client_gives_up_is_not_heard(rig: Rig) -> None:
    ear = Ear()
    channel = OverheardChannel(rig.client, rig.network, CLIENT, NODE, lambda: rig.calls, ear)

    async def ask() -> object:
        first = await channel.stub.Fetch(0.5, timeout=5)
        late = channel.stub.Fetch(50, timeout=60)
        late.cancel()  # what a time limit of the client does
        channel._answered(channel._number, "too late")
        return first

    assert ear.heard == [rig.run(ask())]


def test_the_deadline_is_of_simulated_time_and_ends_the_handler(rig: Rig) -> None:
    async def ask() -> tuple[grpc.StatusCode, float]:
        began = rig.loop.time()
        return await code_of(rig.channel.stub.Fetch(50, timeout=5)), rig.loop.time() - began

    code, seconds = rig.run(ask())
    assert code is grpc.StatusCode.DEADLINE_EXCEEDED
    assert seconds == pytest.approx(5)
    assert rig.broker.cancelled == 1


def test_nobody_listens(rig: Rig) -> None:
    rig.kill_node()
    assert rig.run(failing(rig, 0)) is grpc.StatusCode.UNAVAILABLE
    assert rig.broker.asked == []


def test_a_node_that_dies_breaks_its_calls_and_the_next_call_connects_again(rig: Rig) -> None:
    rig.loop.call_later(1, rig.kill_node)
    assert rig.run(failing(rig, 30)) is grpc.StatusCode.UNAVAILABLE
    rig.start_node()

    async def again() -> object:
        return await rig.channel.stub.Fetch(1, timeout=5)

    assert rig.run(again()) == "slept 1"


def test_a_cut_breaks_calls_after_a_while(rig: Rig) -> None:
    rig.loop.call_later(1, rig.network.cut, NODE, CLIENT)
    assert rig.run(failing(rig, 2)) is grpc.StatusCode.UNAVAILABLE


def test_a_cancelled_call_is_cancelled_over_there(rig: Rig) -> None:
    async def ask() -> None:
        asking = rig.channel.stub.Fetch(30, timeout=50)
        await asyncio.sleep(1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    rig.run(ask())
    assert rig.broker.cancelled == 1


def test_a_stream_answers_in_order_and_ends(rig: Rig) -> None:
    async def converse() -> list[object]:
        call = rig.channel.stub.Produce()
        await call.wait_for_connection()
        for word in ("one", "two", "three", "end"):
            await call.write(word)
        answers = [await call.read() for _ in range(4)]
        assert await call.code() is grpc.StatusCode.OK
        with pytest.raises(asyncio.InvalidStateError):
            await call.write("late")
        return answers

    assert rig.run(converse()) == ["ONE", "TWO", "THREE", aio.EOF]


def test_an_aborted_stream_says_why(rig: Rig) -> None:
    async def converse() -> tuple[grpc.StatusCode, str]:
        call = rig.channel.stub.Produce()
        await call.write("abort")
        assert await code_of(call.read()) is grpc.StatusCode.INVALID_ARGUMENT
        return await call.code(), await call.details()

    assert rig.run(converse()) == (grpc.StatusCode.INVALID_ARGUMENT, "too much")


def test_a_stream_toward_nobody_is_never_connected(rig: Rig) -> None:
    rig.kill_node()

    async def converse() -> grpc.StatusCode:
        return await code_of(rig.channel.stub.Produce().wait_for_connection())

    assert rig.run(converse()) is grpc.StatusCode.UNAVAILABLE


def test_a_node_that_stands_still_answers_when_it_goes_on(rig: Rig) -> None:
    rig.node.pause()
    rig.loop.call_later(3, rig.node.go_on)

    async def ask() -> tuple[object, float]:
        began = rig.loop.time()
        return await rig.channel.stub.Fetch(0, timeout=50), rig.loop.time() - began

    answer, seconds = rig.run(ask())
    assert answer == "slept 0"
    assert 3 < seconds < 3.1
