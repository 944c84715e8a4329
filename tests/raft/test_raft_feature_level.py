"""What a leader knows about the feature levels that the programs of the members support."""

from __future__ import annotations

from raft.core import Heartbeat, HeartbeatResponse
from tests.raft.network import Packet, led


def test_a_leader_supports_what_all_members_support() -> None:
    network = led()
    leader = network.raft(1)
    leader._server.feature_level = 3
    assert leader.supported_feature_level == 0, "no member has answered"
    network.deliver(Packet(HeartbeatResponse(2, 1, leader.term, 0, feature_level=2)))
    assert leader.supported_feature_level == 0, "member 3 has not answered"
    network.deliver(Packet(HeartbeatResponse(3, 1, leader.term, 0, feature_level=4)))
    assert leader.supported_feature_level == 2
    network.deliver(Packet(HeartbeatResponse(3, 1, leader.term, 0, feature_level=1)))
    assert leader.supported_feature_level == 1, "member 3 was started with an older program"


def test_a_member_tells_its_level_with_each_heartbeat() -> None:
    network = led()
    follower = network.raft(2)
    follower._server.feature_level = 5
    network.wire.clear()
    network.deliver(Packet(Heartbeat(1, 2, follower.term, 0, 9)))
    (answer,) = [packet.message for packet in network.wire if isinstance(packet.message, HeartbeatResponse)]
    assert answer.feature_level == 5


def test_a_server_that_does_not_lead_knows_no_level() -> None:
    network = led()
    network.raft(2)._server.feature_level = 5
    assert network.raft(2).supported_feature_level == 0
