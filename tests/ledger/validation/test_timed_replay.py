"""A replay knows the commands of waiting messages, and the batches that deliver them."""

from __future__ import annotations

from pathlib import Path

from ledger.state import State
from ledger.state.command_encoding import encode_command
from ledger.state.commands import Command, CreateTopic, RaiseFeatureLevel
from ledger.state.feature_levels import TIMED
from ledger.state.timed_table import TimedCursor
from ledger.timed import TIMED_TOPIC
from ledger.v1 import command_pb2
from ledger.validation.replay.replay import Replay
from ledger.validation.spans.steps import TimedDelivered
from tests.ledger.validation.stopped_cluster import ORDERS, TIME_MS, Writer
from tests.ledger.validation.test_steps import replayed, states_at

NO_CONFIGURATION = b""


def test_a_log_with_turns_and_cancels_is_replayed(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "node-1", segment_bytes=1 << 20)
    writer.command(raise_feature_level=command_pb2.RaiseFeatureLevel(level=TIMED))
    writer.create_topic(TIMED_TOPIC, 1)
    digests: dict[int, int] = {}
    for turn in range(3):
        for _ in range(20):
            writer.batch([b"waits", b"waits too"], topic_id=ORDERS)
        item = command_pb2.TimedMessage(identity=turn, delivery_ms=TIME_MS)
        writer.command(cancel_timed=command_pb2.CancelTimed(items=[item]))
        ended = command_pb2.SettleTimed(
            through_ms=TIME_MS + turn, through_identity=turn, seen=40 * (turn + 1), settled=[turn]
        )
        after = writer.command(settle_timed=ended).index
        digests[after] = writer.state.digest()
        refused = command_pb2.SettleTimed(through_ms=TIME_MS - 1, seen=1)
        after = writer.command(settle_timed=refused).index
        digests[after] = writer.state.digest()
    assert writer.state.timed.cursor == TimedCursor(TIME_MS + 2, 2, 120)
    writer.stop()
    found = replayed(tmp_path / "node-1", tuple(digests), 8192)
    assert found.told == []
    assert found.is_known
    assert states_at(found, tuple(digests)) == digests


def state_with_waiting_messages() -> State:
    state = State()
    commands: list[Command] = [RaiseFeatureLevel(TIMED), CreateTopic(TIMED_TOPIC, 1)]
    for index, command in enumerate(commands, 1):
        state.apply_command(encode_command(command), TIME_MS, index=index)
    state.put_end(1, 0, 10)
    return state


def test_a_delivery_opens_messages_and_a_second_one_is_told() -> None:
    state = state_with_waiting_messages()
    replay = Replay(1, state=state, start=None, configuration=NO_CONFIGURATION)
    replay.take([TimedDelivered(7, [3, 5], [TIME_MS, TIME_MS], [1, 2])])
    assert state.timed.open == {3: TIME_MS, 5: TIME_MS}
    assert replay.result().told == []
    replay.take([TimedDelivered(8, [5], [TIME_MS], [2]), TimedDelivered(9, [6], [TIME_MS], [3])])
    (told,) = replay.result().told
    assert (told.index, told.reason) == (8, "A batch delivers the waiting message 5, which was delivered before.")
    assert not replay.result().is_known
