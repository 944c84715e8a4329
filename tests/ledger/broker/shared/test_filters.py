"""Shared groups with a filter on a leader: who gets which messages, and how much is evaluated before a turn."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from ledger.batch import Batch, encode
from ledger.broker.shared import filter_look_ahead, filter_parser
from ledger.broker.shared.filter_matches import FilterMatches
from ledger.broker.shared.filter_parser import FilterParser
from ledger.broker.turn_budget import TurnBudget
from ledger.codec import Codec
from ledger.errors import GroupConflictError, InvalidArgumentError
from ledger.filters.parse import MessageFilter, parse_filter
from ledger.filters.properties import Properties
from ledger.state.commands import ResetOffset, ResetOffsets
from tests.ledger.broker.shared.leader import GROUP, ORDERS, QUEUE, Got, LeasingLeader, messages_of


def offsets(messages: Sequence[Got]) -> list[int]:
    return [got.offset for got in messages]


def prices(*numbers: object) -> list[list[tuple[str, bytes]]]:
    """Return the headers of messages with these prices; None: a message without headers."""
    return [[] if number is None else [("price", str(number).encode())] for number in numbers]


def settled(leader: LeasingLeader) -> int:
    """Return the offset before which the group is done with the queue."""
    group = leader.replica.state.shared.leases.get(GROUP)
    assert group is not None
    return group.windows[QUEUE].begin


async def test_only_matching_messages_are_handed_out_and_the_others_are_settled_by_the_same_entry() -> None:
    leader = LeasingLeader()
    leader.send(6, headers=prices(5, 15, None, "much", 25, 10))
    member = leader.member(where="price > 10")
    await leader.turn()  # the group begins
    before = leader.log.last_index
    got = await member.receive()
    assert offsets(got) == [1, 4]
    assert leader.log.last_index == before + 1
    assert await member.ack(*got) == [1, 1]
    assert settled(leader) == 6


async def test_a_filter_and_tags_must_both_be_met() -> None:
    leader = LeasingLeader()
    leader.send(4, headers=prices(5, 15, 25, 35), tags=["a", "a", "b", None])
    assert offsets(await leader.member("a", where="price > 10").receive()) == [1]
    assert settled(leader) == 1


async def test_a_receive_waits_for_a_match_and_skips_what_arrives_before() -> None:
    leader = LeasingLeader()
    member = leader.member(where="price > 10")
    member.ask()
    await leader.turn(2)
    leader.send(2, headers=prices(1, 2))
    await leader.turn(2)
    assert (member.answers(), settled(leader)) == ([], 2)
    leader.send(1, headers=prices(11))
    await leader.turn()
    (answer,) = member.answers()
    assert offsets(messages_of(answer)) == [2]


async def test_messages_that_match_come_back_after_their_leases_and_a_failover() -> None:
    leader = LeasingLeader(max_attempts=2)
    leader.send(4, headers=prices(1, 20, 2, 30))
    first = await leader.member(where="price > 10").receive(lease_ms=1_000)
    leader.fail_over()
    member = leader.member(where="price > 10")
    await leader.turn()
    leader.pass_ms(1_000)
    again = await member.receive(lease_ms=1_000)
    assert (offsets(first), offsets(again)) == ([1, 3], [1, 3])
    leader.pass_ms(1_000)
    assert await member.receive(wait_s=0) == []
    await leader.turn()
    assert settled(leader) == 4, "they were moved to the dead letters"


async def test_an_unmatched_message_holds_up_no_key() -> None:
    leader = LeasingLeader(by_key=True)
    leader.send(5, keys=["a", "a", "a", "b", "b"], headers=prices(1, 11, 12, 2, 13))
    member = leader.member(where="price > 10")
    first = await member.receive()
    assert offsets(first) == [1, 4]
    await member.ack(*first)
    assert offsets(await member.receive()) == [2]


async def test_a_blocked_key_holds_up_no_match_of_other_keys() -> None:
    leader = LeasingLeader(by_key=True)
    leader.send(400, keys=["a"] * 399 + ["b"], headers=prices(*[11] * 400))
    member = leader.member(where="price > 10")
    assert offsets(await member.receive(1)) == [0]
    assert offsets(await member.receive(1)) == [399]


async def test_all_members_of_a_group_have_the_same_filter() -> None:
    leader = LeasingLeader()
    first = leader.member(where="price > 10 AND TAGS IS NULL")
    leader.member(where="price>10  and tags is null".replace("tags", "TAGS"))
    for other in ("price > 11", None):
        with pytest.raises(GroupConflictError, match="same filter"):
            leader.member(where=other)
    for member in list(leader.turns._groups[GROUP].members):
        leader.turns.leave(member)
    assert first.member.topics[ORDERS].filter is not None
    leader.send(2, headers=prices(1, 11))
    assert offsets(await leader.member(where="price = 1").receive()) == [0]


async def test_a_member_that_joins_again_with_another_filter_is_evaluated_anew() -> None:
    leader = LeasingLeader()
    leader.send(40, headers=prices(*range(40)))
    leader.member(where="price < 0", name="consumer").ask(1)
    await leader.turn(1)
    assert offsets(await leader.member(where="price >= 38", name="consumer").receive()) == [38, 39]


async def test_a_group_with_another_filter_evaluates_anew() -> None:
    leader = LeasingLeader()
    leader.send(40, headers=prices(*range(40)))
    one = leader.member(where="price < 0")
    one.ask(1)
    await leader.turn(1)
    leader.turns.leave(one.member)
    assert offsets(await leader.member(where="price >= 38").receive()) == [38, 39]


async def test_a_reset_to_an_earlier_offset_evaluates_messages_again() -> None:
    leader = LeasingLeader()
    leader.send(10, headers=prices(*range(10)))
    member = leader.member(where="price > 7")
    await member.ack(*await member.receive())
    leader.append(ResetOffsets(GROUP, (ResetOffset(ORDERS, 0, 0),)))
    assert offsets(await member.receive()) == [8, 9]


async def test_messages_of_compressed_batches_are_evaluated() -> None:
    leader = LeasingLeader()
    leader.send(100, headers=prices(*range(100)), size=100, codec=Codec.ZSTD)
    assert offsets(await leader.member(where="price IN ('7', '70')").receive()) == [7, 70]


async def test_a_batch_that_cannot_be_decoded_does_not_hold_up_the_group(caplog: pytest.LogCaptureFixture) -> None:
    """A producer can send a batch whose payload is nonsense with a right checksum."""
    leader = LeasingLeader()
    leader.send_nonsense(3)
    leader.send(2, headers=prices(1, 11))
    member = leader.member(where="price > 10")
    member.ask()
    await leader.turn(3)
    assert 4 in [got.offset for answer in member.answers() for got in messages_of(answer)]
    assert "a filter cannot read a batch" in caplog.text


# -- bounds


def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which each evaluation of a filter adds the number of its messages."""
    counts: list[int] = []
    matches = MessageFilter.matches

    def counting(self: MessageFilter, messages: Properties) -> list[bool]:
        counts.append(len(messages))
        return matches(self, messages)

    monkeypatch.setattr(MessageFilter, "matches", counting)
    return counts


@pytest.mark.parametrize("by_key", [False, True])
async def test_the_work_before_a_turn_is_bounded(by_key: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_look_ahead, "MAX_TURN_COST", 600)
    monkeypatch.setattr(filter_look_ahead, "_PART_COST", 60)
    counts = evaluated(monkeypatch)
    leader = LeasingLeader(by_key=by_key)
    leader.send(1_000, headers=prices(*range(1_000)))
    member = leader.member(where="price = 999")
    await leader.turn()
    member.ask()
    turns = 0
    while not (answers := member.answers()):
        counts.clear()
        assert await leader.turns._turn() == 0.0, "a turn with more to evaluate is followed by another one"
        assert sum(counts) <= 600 // 6 + 10
        turns += 1
        assert turns < 20
    assert offsets(messages_of(answers[0])) == [999]
    assert turns >= 9


async def test_groups_and_queues_share_the_work_before_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_look_ahead, "MAX_TURN_COST", 1_200)
    monkeypatch.setattr(filter_look_ahead, "_PART_COST", 60)
    leader = LeasingLeader()
    leader.send(10_000, headers=prices(*[0] * 10_000))
    leader.send(10, headers=prices(*[0] * 9, 1), queue=1)
    member = leader.member(where="price = 1")
    await leader.turn()
    member.ask()
    await leader.turn(2)
    (answer,) = member.answers()
    assert offsets(messages_of(answer)) == [9], "the long queue did not keep the leader from the short one"


async def test_no_more_is_evaluated_than_the_receives_want(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = evaluated(monkeypatch)
    leader = LeasingLeader()
    leader.send(20_000, headers=prices(*[1] * 20_000))
    assert len(await leader.member(where="price = 1").receive(5)) == 5
    assert sum(counts) < 1_000


async def test_a_group_without_a_filter_evaluates_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("there is no filter")

    monkeypatch.setattr(FilterMatches, "append", never)
    leader = LeasingLeader()
    leader.send(3, headers=prices(1, 2, 3))
    assert len(await leader.member().receive()) == 3


@pytest.mark.parametrize("by_key", [False, True])
@pytest.mark.parametrize("seed", range(20))
async def test_exactly_the_matching_messages_are_handed_out_in_any_order_of_events(seed: int, by_key: bool) -> None:
    random = Random(seed)
    leader = LeasingLeader(by_key=by_key)
    sent: list[int] = []
    acknowledged: list[int] = []
    member = leader.member(where="price BETWEEN 3 AND 6")
    held: list[Got] = []
    for _ in range(60):
        match random.randrange(6):
            case 0 | 1:
                numbers = [random.randrange(10) for _ in range(random.randrange(1, 40))]
                keys = [random.choice([None, "a", "b", "c"]) for _ in numbers]
                leader.send(len(numbers), headers=prices(*numbers), keys=keys)
                sent += numbers
            case 2 | 3:
                held += await member.receive(random.randrange(1, 20), lease_ms=5_000, wait_s=0)
            case 4:
                some = random.sample(held, random.randrange(len(held) + 1))
                changed = await member.ack(*some) if some else []
                acknowledged += [got.offset for got, count in zip(some, changed, strict=True) if count]
                held = [got for got in held if got not in some]
            case _:
                leader.fail_over()
                member = leader.member(where="price BETWEEN 3 AND 6")
                await leader.turn()
                leader.pass_ms(random.choice([0, 5_000]))
    leader.pass_ms(20_000)
    for _ in range(2_000):
        got = await member.receive(100, wait_s=0)
        if not got and settled(leader) == len(sent):
            break
        if got:
            acknowledged += offsets(got)
            await member.ack(*got)
    assert sorted(acknowledged) == [offset for offset, price in enumerate(sent) if 3 <= price <= 6]


# -- parsing


async def test_a_filter_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []

    def parse(text: str) -> MessageFilter:
        texts.append(text)
        return parse_filter(text)

    monkeypatch.setattr(filter_parser, "parse_filter", parse)
    monkeypatch.setattr(filter_parser, "MAX_KEPT", 2)
    parser = FilterParser(TurnBudget(10))
    for text in ("a = 1", "b = 1", "a = 1", "c = 1", "a = 1", "b = 1"):
        assert await parser.parse(text) == parse_filter(text)
    assert texts == ["a = 1", "b = 1", "c = 1", "b = 1"]
    for _ in range(2):
        with pytest.raises(InvalidArgumentError, match="at character 3"):
            await parser.parse("a != 1")


def test_a_long_key_or_tag_makes_a_comparison_more_expensive() -> None:
    """A filter of many comparisons with a key of megabytes would hold up the event loop."""
    place: dict[str, Any] = dict.fromkeys(
        ("topic_id", "queue", "producer_id", "epoch", "first_sequence", "base_timestamp_ms"), 1
    )
    wanted = parse_filter("KEYS CONTAINS 'a' AND KEYS CONTAINS 'b'")
    large = bytes(1 << 20)

    def cost(**columns: Any) -> int:
        stored: Any = SimpleNamespace(batch=Batch(encode([b"body"], **place, **columns)))
        return filter_look_ahead._cost_of_a_message(stored, wanted)

    small = cost(keys=[b"key"], tags=["tag"])
    assert small < 10
    for columns in ({"keys": [large]}, {"tags": [large.decode()]}, {"look_up_keys": [[large]]}):
        assert cost(**columns) > 100 * small
