"""The types of topics in the state of shard 0, below and from the feature level on that brought them."""

from __future__ import annotations

import pytest

from ledger.errors import InvalidArgumentError, LedgerError
from ledger.state import State, Topic
from ledger.state.command_checks import check_command
from ledger.state.command_encoding import decode_command, encode_command
from ledger.state.commands import AlterTopic, Command, CreateTopic, DeleteTopic, RaiseFeatureLevel
from ledger.state.feature_levels import TOPIC_TYPES
from ledger.topics import TopicType, topic_type_of


def state_of(level: int) -> State:
    state = State()
    state.apply_command(encode_command(RaiseFeatureLevel(level)), 1, index=1)
    return state


def applied(state: State, command: Command) -> object:
    assert decode_command(encode_command(command)) == command
    return state.apply_command(encode_command(command), 1, index=2)


def types(state: State) -> dict[str, TopicType]:
    return {topic.name: topic.type for topic in state.topics}


def test_a_topic_keeps_its_type_until_it_is_changed() -> None:
    state = state_of(TOPIC_TYPES)
    applied(state, CreateTopic("orders", 1, (0,), TopicType.FIFO))
    applied(state, CreateTopic("payments", 1, (0,)))
    assert types(state) == {"orders": TopicType.FIFO, "payments": TopicType.MIXED}
    applied(state, AlterTopic(1, (0, 0)))
    assert types(state)["orders"] is TopicType.FIFO
    changed = applied(state, AlterTopic(1, (0, 0), TopicType.DELAY))
    assert isinstance(changed, Topic)
    assert (changed.type, changed.queues) == (TopicType.DELAY, 2)
    applied(state, AlterTopic(2, (0, 0), TopicType.NORMAL))
    assert types(State.decode(state.encode())) == {"orders": TopicType.DELAY, "payments": TopicType.NORMAL}
    applied(state, AlterTopic(2, (0, 0), TopicType.MIXED))
    applied(state, DeleteTopic(1))
    assert types(State.decode(state.encode())) == {"payments": TopicType.MIXED}


def test_below_the_level_the_type_has_no_effect() -> None:
    """A program that does not know types creates the topic too."""
    state, plain = state_of(TOPIC_TYPES - 1), state_of(TOPIC_TYPES - 1)
    applied(state, CreateTopic("orders", 1, (0,), TopicType.FIFO))
    applied(state, AlterTopic(1, (0, 0), TopicType.DELAY))
    applied(plain, CreateTopic("orders", 1, (0,)))
    applied(plain, AlterTopic(1, (0, 0)))
    assert state.encode() == plain.encode()
    with pytest.raises(InvalidArgumentError, match=f"types of topics need level {TOPIC_TYPES}: some nodes"):
        state.require_topic_types()


@pytest.mark.parametrize("command", [CreateTopic("orders", 1, (0,), 99), AlterTopic(1, (0,), 99)])
def test_a_type_that_does_not_exist_is_refused(command: Command) -> None:
    state = state_of(TOPIC_TYPES)
    applied(state, CreateTopic("first", 1, (0,)))
    before = state.encode()
    assert isinstance(applied(state, command), LedgerError)
    assert state.encode() == before
    with pytest.raises(InvalidArgumentError, match="There is no type 99 of a topic: use 0 to 4"):
        check_command(command, 0)


def test_words_of_types() -> None:
    assert [topic_type_of(each.word) for each in TopicType] == list(TopicType)
    with pytest.raises(InvalidArgumentError, match="'priority' is no type of a topic: use mixed, normal"):
        topic_type_of("priority")
