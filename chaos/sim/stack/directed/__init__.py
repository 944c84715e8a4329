"""Fault kinds of the stack world that have a file of their own.

    directed_fault.py          the interface of such a fault kind, and what it gets from the world
    leader_ends.py             the base class of faults in which a leader dies at a moment that the load tells
    mute_followers.py          a leader hears its followers, but not their acknowledgements
    no_room.py                 the disk of a node is nearly full
    clock_leap.py              the clock of a node leaps by a day or more
    clocks_go_back.py          the clocks of most nodes are ahead, and are set right
    clocks_leap_under_leases.py
                               the clocks of most nodes leap while messages are leased, and leaders die
    configuration_at_tail.py   a node loses power while its last entry is a configuration
    repair_other_chain.py      a log with entries that no other node has is damaged before them
    snapshot_over_longer.py    a cut-off leader gets a snapshot, and its own log is longer
    target_deleted.py          a topic is deleted while messages wait for it
    turn_end_held_back.py      a leader delivers messages, and dies before the turn ends
    replica_moves.py           nodes are drained, and replicas move
    two_learners.py            two nodes are added as learners at once

To add a kind: a file here, and a line with `share` and `files` in `chaos/sim/engine/faults.py`.
"""
