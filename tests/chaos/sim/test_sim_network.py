"""The simulated network: faults of datagrams, the promises of a connection, and overlapping cuts."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from chaos.sim.engine.links import Conditions
from chaos.sim.engine.loop import SimLoop
from chaos.sim.engine.network import Network
from chaos.sim.engine.network_faults import far_apart, halves


class Wire:
    """A network, with a record of the deliveries."""

    def __init__(self, conditions: Conditions | None = None, seed: int = 1) -> None:
        self.loop = SimLoop()
        self.network = Network(self.loop, Random(seed), conditions or Conditions())
        self.arrived: list[Any] = []
        self.broken: list[int] = []

    def send(self, sender: int, receiver: int, what: object) -> None:
        self.network.send(sender, receiver, self.deliver(what))

    def deliver(self, what: object) -> Callable[[], None]:
        return lambda: self.arrived.append(what)

    def after(self, seconds: float) -> list[Any]:
        """The messages that arrive within this time."""
        self.loop.run_until(self.loop.time() + seconds)
        arrived, self.arrived = self.arrived, []
        return arrived


def test_without_faults_a_direction_keeps_its_order_and_everything_arrives() -> None:
    wire = Wire(Conditions(delay_ms=1, spread_ms=50))
    for number in range(200):
        wire.send(1, 2, number)
    assert wire.after(60) == list(range(200))


@pytest.mark.parametrize(
    ("conditions", "what"),
    [
        (Conditions(loss=0.3), "loss"),
        (Conditions(duplicate=0.3), "duplicate"),
        (Conditions(reorder=0.3), "reorder"),
        (Conditions(replay=0.3), "replay"),
    ],
)
def test_each_rate_does_what_it_says_and_is_counted(conditions: Conditions, what: str) -> None:
    wire = Wire(conditions)
    for number in range(300):
        wire.send(1, 2, number)
        wire.loop.run_until(wire.loop.time() + 0.01)
    arrived, count = wire.after(120), wire.network.counts[what]
    expected = {"loss": 300 - count, "duplicate": 300 + count, "replay": 300 + count, "reorder": 300}[what]
    assert len(arrived) == expected
    assert 50 < count < 150
    assert (arrived == sorted(arrived)) is (what == "loss")


def test_a_cut_is_one_way_and_takes_what_is_on_the_way() -> None:
    wire = Wire(Conditions(delay_ms=100))
    wire.send(1, 2, "on the way")
    wire.network.cut(1, 2)
    wire.send(1, 2, "sent into it")
    wire.send(2, 1, "the way back")
    assert wire.after(1) == ["the way back"]
    assert wire.network.counts["cut"] == 2


def test_what_two_faults_have_cut_is_mended_twice_or_healed_once() -> None:
    wire = Wire()
    wire.network.cut(1, 2)
    wire.network.isolate(2, [1, 2, 3])
    wire.network.mend(1, 2)
    wire.send(1, 2, "too early")
    assert wire.after(1) == []
    wire.network.heal()
    wire.send(1, 2, "now")
    assert wire.after(1) == ["now"]


def test_a_clog_keeps_everything_back_and_lets_it_go_in_order() -> None:
    wire = Wire()
    wire.network.clog(1, 2, 5_000)
    wire.send(1, 2, "a")
    wire.send(1, 2, "b")
    assert wire.after(4.9) == []
    assert wire.after(1) == ["a", "b"]


def test_who_is_down_neither_hears_nor_is_heard() -> None:
    wire = Wire()
    wire.send(1, 2, "on the way")
    wire.network.down(2)
    wire.send(2, 1, "from a dead one")
    assert wire.after(1) == []
    wire.network.up(2)
    wire.send(1, 2, "hello")
    assert wire.after(1) == ["hello"]


def test_a_connection_delivers_in_order_both_ways_whatever_is_lost_below() -> None:
    wire = Wire(Conditions(loss=0.3, spread_ms=20))
    connection = wire.network.connection(100, 1, wire.broken.append)
    for number in range(100):
        connection.send(100, wire.deliver(number))
    connection.send(1, wire.deliver("back"))
    arrived = wire.after(120)
    assert [each for each in arrived if each != "back"] == list(range(100))
    assert "back" in arrived
    assert wire.broken == []


def test_a_cut_breaks_a_connection_after_a_while_and_both_ends_hear_of_it() -> None:
    wire = Wire(Conditions(detect_ms=1_000))
    connection = wire.network.connection(100, 1, wire.broken.append)
    wire.network.cut(1, 100)
    connection.send(100, wire.deliver("this way is open"))
    connection.send(1, wire.deliver("this one is not"))
    assert wire.after(0.9) == ["this way is open"]
    assert wire.broken == []
    assert wire.after(1) == []
    assert sorted(wire.broken) == [1, 100]
    wire.network.heal()
    connection.send(100, wire.deliver("a broken one stays broken"))
    assert wire.after(10) == []


def test_a_cut_that_is_mended_in_time_only_delays() -> None:
    wire = Wire(Conditions(detect_ms=1_000))
    connection = wire.network.connection(100, 1, wire.broken.append)
    wire.network.cut(100, 1)
    connection.send(100, wire.deliver("a"))
    connection.send(100, wire.deliver("b"))
    wire.after(0.5)
    wire.network.heal()
    assert wire.after(5) == ["a", "b"]
    assert wire.broken == []


def test_a_cut_that_comes_and_goes_changes_no_order() -> None:
    """A message that is on its way during a cut or its mending is not overtaken by later messages."""
    wire = Wire(Conditions(delay_ms=100, spread_ms=80, detect_ms=60_000))
    connection = wire.network.connection(100, 1, wire.broken.append)
    arrived: list[object] = []
    for number in range(100):
        if number % 10 == 0:
            wire.network.heal() if number % 20 else wire.network.cut(100, 1)
        connection.send(100, wire.deliver(number))
        arrived += wire.after(0.01 * (number % 7))
    wire.network.heal()
    assert arrived + wire.after(5) == list(range(100))


def test_a_killed_end_breaks_its_connections_and_hears_nothing() -> None:
    wire = Wire()
    connection = wire.network.connection(100, 1, wire.broken.append)
    connection.send(100, wire.deliver("to a dead one"))
    wire.network.down(1)
    assert wire.after(5) == []
    assert wire.broken == [100]


def test_a_connection_to_nobody_is_refused() -> None:
    wire = Wire()
    wire.network.down(1)
    wire.network.connection(100, 1, wire.broken.append)
    wire.after(1)
    assert wire.broken == [100]


def test_partitions_leave_the_directions_that_they_say() -> None:
    ring = far_apart([1, 2, 3, 4, 5], around=True)
    heard = {node: 4 - sum(pair[0] == node for pair in ring) for node in range(1, 6)}
    assert set(heard.values()) == {2}, "with itself, everyone has a majority of five"
    chain = far_apart([1, 2, 3], around=False)
    assert sorted(chain) == [(1, 3), (3, 1)]
    cut = halves([1, 2, 3, 4, 5], Random(3))
    sides = {frozenset(pair) for pair in cut}
    assert all((b, a) in cut for a, b in cut)
    assert len(sides) in (4, 6)
