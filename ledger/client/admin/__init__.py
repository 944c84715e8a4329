"""The admin client, by resource.

In reading order:

    admin.py                   AsyncAdmin, the class that users call
    every_shard.py             carries out one request in all shards it concerns
    members_admin.py           members and leadership of one shard
    log_admin.py               trims and holds of one shard's log
    consumer_groups_admin.py   progress, resets and deletion of consumer groups
    consumer_group_records.py  what is returned about consumer groups
    offsets.py                 first and end offsets of queues
    queries.py                 messages by key and by place
"""
