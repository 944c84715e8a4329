"""A leader whose followers have stopped: its answers tell an appended batch from one that it refused before."""

from __future__ import annotations

import pytest

from ledger.errors import LedgerError, NoLeaderError, NotLeaderError
from tests.cluster.fleet import MakeFleet, error_of, sample_batch
from tests.cluster.waiter import eventually

pytestmark = pytest.mark.real


async def test_a_leader_that_lost_its_majority_says_what_it_did_not_append(make_fleet: MakeFleet) -> None:
    fleet = make_fleet(3)
    await fleet.start()
    leader = await fleet.leader()
    topic = await fleet.create_topic()
    await fleet.stop(*(node for node in fleet.nodes if node != leader))
    appended = error_of(await fleet.produce(leader, sample_batch(topic)))
    assert isinstance(appended, NotLeaderError | NoLeaderError)
    assert not appended.not_appended, "the batch is in the log of this node, and can still be committed"

    async def refusal() -> LedgerError | None:
        return error_of(await fleet.produce(leader, sample_batch(topic, first_sequence=2)))

    refused = await eventually(refusal, "the node has given up leadership")
    assert isinstance(refused, NotLeaderError | NoLeaderError)
    assert refused.not_appended
