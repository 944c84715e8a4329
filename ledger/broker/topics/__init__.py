"""Topics.

topic_commands.py   the commands that change topics and add shards
placement.py        chooses the shard of a queue and the nodes of a shard
topic_opening.py    opens a new topic's queues in their shards
topic_deletion.py   removes a deleted topic from every shard
"""
