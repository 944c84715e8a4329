"""How far a drain is, in words."""

from __future__ import annotations

from cluster.cli.cluster.drain_progress import DrainProgress
from cluster.replica_moves import bytes_left
from ledger.client.placement_records import Placement, PlacementMove, PlacementReplica, PlacementShard


def placement(sizes: dict[int, int], lags: dict[int, int], source: int = 1) -> Placement:
    """Return a cluster whose node 1 has replicas of shards with these sizes. Of some, a replica leaves `source`."""
    return Placement(
        replicas=3,
        replicas_set=False,
        paused=False,
        balancing=False,
        nodes=(),
        shards=tuple(
            PlacementShard(shard, 1, size, 3, (PlacementReplica(1, True, True, 0),)) for shard, size in sizes.items()
        ),
        moves=tuple(PlacementMove(shard, 4, source, "drain", 5, lag, "") for shard, lag in lags.items()),
        balance=(),
        leader_changes=0,
        obstacles=(),
    )


def test_the_time_left_comes_from_what_was_copied_since_the_first_look() -> None:
    now_s = 0.0
    progress = DrainProgress(1, lambda: now_s)
    sizes = {1: 400_000_000, 2: 600_000_000}
    assert progress(placement(sizes, {})) == (
        "Node 1 still has replicas of 2 shards; 0 of them move now, and 1,000.0 MB are to be copied."
    )
    now_s = 10.0
    assert progress(placement(sizes, {1: 200_000_000})) == (
        "Node 1 still has replicas of 2 shards; 1 of them move now, and 800.0 MB are to be copied, which takes about "
        "40 s more."
    )
    now_s = 20.0
    assert "600.0 MB are to be copied, which takes about 30 s more." in progress(placement({2: 600_000_000}, {}))


def test_a_drain_that_does_not_go_on_has_no_time() -> None:
    now_s = 0.0
    progress = DrainProgress(1, lambda: now_s)
    progress(placement({1: 5_000_000}, {1: 5_000_000}))
    now_s = 60.0
    assert progress(placement({1: 5_000_000}, {1: 6_000_000})).endswith("6.0 MB are to be copied.")


def test_a_replica_that_leaves_another_node_copies_nothing_of_this_one() -> None:
    assert bytes_left(placement({1: 5_000}, {1: 10}, source=2), 1) == 5_000
    assert bytes_left(placement({1: 5_000}, {1: 10}), 1) == 10
