"""Shared consumer groups on the leader of a shard: who gets which message.

This list has the modules in reading order.

    members.py            the members with an open stream, and their receives that wait
    lease_clock.py        the lease time, by which leases end
    stored_batches.py     the decoded batches that were used last
    filter_parser.py      parses the filters of members
    filter_matches.py     which messages match the filter of a group
    queue_choice.py       the messages of one queue that can be leased now
    key_order.py          the same for groups with order by key
    lease_entry.py        the entry of a turn, while it is being made
    filter_look_ahead.py  evaluates filters ahead of the turns
    group_receives.py     which messages each receive of a group gets in one turn
    lease_turns.py        the turns of the leader: one entry with everything that members want
    leased_batches.py     reads leased messages from the log, and cuts batches to them
    dead_letters.py       moves messages that were handed out too often to the dead letters
    first_leases.py       lets a group begin at offsets that an operator gives
    group_lookup.py       the modes of groups, as this node's replica of shard 0 knows them
    shared_lag.py         how far a shared group is behind in a queue, and how much is handed out
"""

from __future__ import annotations
