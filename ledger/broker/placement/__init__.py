"""The placement of replicas: which nodes have a replica of which shard, and how that changes.

    view.py      what the leader of shard 0 knows about the nodes and the members of all shards
    plan.py      a pure function: the view -> the moves that shall begin, and what stands in the way
    leaders.py   a pure function: which nodes should lead the shards, so that all nodes lead equally many
    keeper.py    runs on the leader of shard 0: begins moves, takes their steps one by one, and ends them

The moves are entries of shard 0 (`ledger.state.placement_table`). The steps of a move are changes of members, which
the leader of the moved shard decides (`ledger.broker.members`).
"""
