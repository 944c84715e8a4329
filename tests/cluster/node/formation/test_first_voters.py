"""The voter that forms and leads a shard; and all shards of a node tick in the same turn."""

from __future__ import annotations

import asyncio
from pathlib import Path

from cluster.node.formation.first_voters import first_shard, in_turn, preferred
from cluster.node.process.ticker import Ticker
from cluster.node.process.vital import Vital
from cluster.node.settings import NodeSettings


def settings(**given: object) -> NodeSettings:
    peers = {node: f"h:{node}" for node in (3, 1, 2)}
    return NodeSettings(node=1, data=Path("/d"), peers=peers, **given)  # type: ignore[arg-type]


def test_each_shard_is_led_by_the_next_voter_in_node_order() -> None:
    assert [in_turn(shard, (30, 10, 20)) for shard in range(5)] == [10, 20, 30, 10, 20]
    assert first_shard(settings()).voters == (1, 2, 3)


def nobody() -> int:
    """No voter is pinned."""
    return 0


def test_the_preferred_leader_follows_the_voters_that_there_are() -> None:
    prefer = preferred(1, settings(shards=4), nobody, nobody)
    assert [prefer(voters) for voters in ((1, 2, 3), (1, 3, 4), (5,))] == [2, 3, 5]


def test_one_shard_alone_has_none_and_the_settings_go_before() -> None:
    assert preferred(0, settings(), nobody, nobody)((1, 2, 3)) == 0
    assert preferred(0, settings(shards=2), nobody, nobody)((1, 2, 3)) == 1
    assert preferred(1, settings(), nobody, nobody)((1, 2, 3)) == 2, "a shard that was added"
    assert preferred(1, settings(shards=2, spread_leaders=False), nobody, nobody)((1, 2, 3)) == 0
    assert preferred(1, settings(shards=2, preferred_leader=3, spread_leaders=False), nobody, nobody)((1, 2, 3)) == 3


async def test_all_tick_in_the_same_turn_until_they_are_removed() -> None:
    ticker, ticked, turns = Ticker(Vital(), 1, 1), asyncio.Event(), []
    loop = asyncio.get_running_loop()
    turn = 0

    def count() -> None:
        nonlocal turn
        turn += 1
        loop.call_soon(count)

    count()

    def second() -> None:
        turns.append(("second", turn))
        ticked.set()

    def first() -> None:
        turns.append(("first", turn))

    ticker.add(first)
    ticker.add(second)
    await ticked.wait()
    (one, at), (other, then) = turns[:2]
    assert (one, other) == ("first", "second")
    assert at == then
    ticker.remove(first)
    turns.clear()
    ticked.clear()
    await ticked.wait()
    assert [name for name, _ in turns] == ["second"]
    await ticker.stop()


def test_a_pinned_voter_is_preferred_to_all_others() -> None:
    pins = [2]
    for each in (settings(), settings(shards=4), settings(spread_leaders=False), settings(preferred_leader=3)):
        assert preferred(0, each, lambda: pins[0], nobody)((1, 2, 3)) == 2
    prefer = preferred(1, settings(shards=4), lambda: pins[0], nobody)
    pins[0] = 0
    assert prefer((1, 2, 3)) == 2, "the pin was removed: the preferred leader again"
    pins[0] = 3
    assert prefer((1, 2, 3)) == 3
