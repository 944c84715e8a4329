"""The faults that a chaos run can inject, and the plan of faults that follows from a seed.

In reading order:

    fault.py       the interface of a fault: strike, evidence, heal
    plan.py        when which fault strikes, from a seed
    catalogue.py   all kinds of faults by their names
    processes.py   nodes that are killed, stopped, paused or lose power; clients that are killed
    network.py     partitions, and packets that are lost, late, reordered or slow
    disks.py       a full, a failing and a slow disk
    damage.py      flipped bits, truncated files, old copies, deleted files
    operations.py  leadership is transferred, nodes are added, removed and replaced, clocks are set
    moves.py       replicas move between nodes, and the leader that moves them is killed
    due.py         kills when messages with delivery times are due
    ends.py        kills between the prepare and the commit of transactions
    leases.py      kills while messages of shared groups are leased
    stale_vote.py  an older vote file, which a run must report
"""
