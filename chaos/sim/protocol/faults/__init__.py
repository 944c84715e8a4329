"""Fault kinds of the protocol world that have a file of their own, most of them with a promise of their own: what the
cluster promises under this fault.

    promised_fault.py          the interface of such a fault kind, and what it gets from the world
    mute_followers.py          a leader hears its followers, but not their acknowledgements
    no_room.py                 the disk of a node is nearly full
    clock_leap.py              the clock of a node leaps by a day or more
    put_back_disk.py           a disk is replaced by an older copy of itself
    lying_flush.py             a disk reports a flush that it has not done
    answers_before_loss.py     a follower loses power, and its earlier answers arrive after its leader knows of the loss
    cut_after_timeout_now.py   a leader is cut off just after it has told its successor to stand for election
    vote_saved_again.py        requests for votes arrive again

To add a kind: a file here, and a line with `share` and `files` in `chaos/sim/engine/faults.py`.
"""
