"""The feature levels of the replicated state. A feature level is a set of rules that all replicas of a shard apply.

Two programs of different versions must compute the same state from the same entries. So a new command, or a new rule of
`State`, belongs to a feature level, and counts only behind the entry that raises the shard to this level
(`RaiseFeatureLevel`). The leader proposes that entry when the program of every member supports the level
(`ledger/broker/feature_level.py`). The level of a shard never falls.

    0  the rules of the versions before feature levels
    1  a command with an impossible value is refused when it is applied, and changes nothing; earlier rules would store
       the value
    2  users, rules, delegated tokens and RocketMQ secrets in shard 0
    3  waiting messages: the topic `%TIMED`, the commands SettleTimed and CancelTimed, and batches that deliver waiting
       messages
    4  transactions: the topic `%HALF`, the commands of transactions, and batches that settle half batches;
       shared consumer groups: the commands CreateConsumerGroup and ChangeLeases;
       messages with look-up keys: batches with the column LOOK_UP_KEYS
    5  calls that a node makes for a user; types of topics; messages with ids: batches with the column MESSAGE_IDS
    6  the placement of replicas: how many replicas a shard shall have, drains and moves, in shard 0;
       pinned leaders: the commands PinLeader and UnpinLeader;
       coordinators of consumer groups in all shards: the commands PlaceCoordinator, HostGroup and CloseGroup

A program that finds a level or a command that it does not know cannot compute the state any further. Its replica then
stops applying entries, and the node stays up (`raft.errors.CannotApplyError`).
"""

from __future__ import annotations

# The highest level whose rules this program knows.
LATEST_LEVEL = 6

# From this level on, `State` checks the values of commands (command_checks.py).
CHECKED_COMMANDS = 1
# From this level on, `State` has users, rules and delegated tokens (access_table.py).
ACCESS_CONTROL = 2
# From this level on, `State` has waiting messages (timed_table.py).
TIMED = 3
# From this level on, `State` has transactions (transaction_table.py).
TRANSACTIONS = 4
# From this level on, `State` has modes of consumer groups and leases (group_modes.py, lease_table.py).
SHARED_GROUPS = 4
# From this level on, a leader takes batches with look-up keys (produce_decisions.py).
LOOK_UP_KEYS = 4
# From this level of shard 0 on, nodes call other nodes for users, because every node can tell such a call
# (cluster/node/security/forwarded_callers.py).
FORWARDED_CALLERS = 5
# From this level of shard 0 on, `State` has types of topics (topic_table.py).
TOPIC_TYPES = 5
# From this level on, `State` remembers message ids (message_ids.py).
MESSAGE_IDS = 5
# From this level of shard 0 on, `State` has the placement of replicas (placement_table.py).
PLACEMENT = 6
# From this level on, `State` has a pinned leader (pinned_leader.py).
PINNED_LEADERS = 6
# From this level on, `State` has the places of coordinators of consumer groups (coordinator_table.py).
PLACED_COORDINATORS = 6
