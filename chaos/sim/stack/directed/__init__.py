"""Fault kinds of the stack world that have a file of their own.

    directed_fault.py               the interface of such a fault kind, and what it gets from the world
    leader_ends.py                  the base class of faults in which a leader dies at a moment that the load tells
    leader_ends_at_due.py           a leader dies when waiting messages are due
    leader_ends_in_transaction.py   a leader dies when a half batch is committed or a transaction is decided
    leader_ends_under_leases.py     a leader dies when it has leased messages
    mute_followers.py               a leader hears its followers, but not their acknowledgements
    no_room.py                      the disk of a node is nearly full
    half_write.py                   the disk of a node becomes full in the middle of a write of entries
    half_vote.py                    a follower dies in the middle of saving its own vote
    clock_leap.py                   the clock of a node leaps by a day or more
    clocks_go_back.py               the clocks of most nodes are ahead, and are set right
    clocks_leap_under_leases.py     the clocks of most nodes leap while messages are leased, and leaders die
    configuration_at_tail.py        a node loses power while its last entry is a configuration
    repair_from_lagging.py          a follower repairs its last entry, and reaches only a node without this entry
    cut_off_leader.py               the base class of faults of a cut-off leader, whose log gets entries of its own
    end_lost.py                     such a leader stops in order, and its disk loses the last entries
    repair_other_chain.py           a log with entries that no other node has is damaged before them
    repair_other_entry.py           the first of the entries that no other node has is damaged
    snapshot_over_longer.py         a cut-off leader gets a snapshot, and its own log is longer
    target_deleted.py               a topic is deleted while messages wait for it
    turn_end_held_back.py           a leader delivers messages, and dies before the turn ends
    coordinator_moved.py            the coordinator of a consumer group moves to another shard
    move_while_claimed.py           a member moves a message while its queue is claimed or reset
    replica_moves.py                nodes are drained, and replicas move
    two_learners.py                 two nodes are added as learners at once
    pin_leader.py                   an operator pins a leader, or removes the pin
    back_up.py                      backups are made, and some are killed
    mirror_topics.py                a mirror runs, and is killed

To add a kind: a file here, and a line with `share` and `files` in `chaos/sim/engine/faults.py`.
"""
