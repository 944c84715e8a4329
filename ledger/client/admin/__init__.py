"""The admin client: its operations on members, logs, consumer groups and messages are in separate modules.

This package contains, in reading order:

    admin.py                   `AsyncAdmin`, the admin client that programs use
    checked_calls.py           checks the arguments of all calls by their names
    every_shard.py             sends an operator's request to each shard that it concerns
    members_admin.py           adds, promotes and removes members of one shard, and transfers its leadership
    placement_admin.py         shows and changes the placement of replicas: drains, balances, replication factors
    log_admin.py               trims the log of one shard, and takes and releases its holds
    consumer_groups_admin.py   lists, describes, resets and deletes consumer groups
    consumer_group_records.py  the values that the admin client returns about consumer groups
    users_admin.py             adds and removes users, and grants and revokes rules
    offsets.py                 reads the first offset and the end offset of queues, and offsets for times
    queries.py                 finds messages by key, and one message by topic, queue and offset
    message_trace.py           traces the life of one message
    waiting_messages.py        lists messages that wait for their delivery times
    transactions_admin.py      lists, shows and ends transactions
    slow_requests.py           asks nodes for their slow requests
"""
