"""Creates, changes and deletes topics.

This package contains, in reading order:

    topics.py               what clients ask for: create, alter and delete a topic
    retry_topics.py         the retry and dead-letter topics of consumer groups
    timed_topic.py          the topic of messages with delivery times
    transaction_topics.py   the topic of half batches, and the dead-letter topics of producer groups
    topic_commands.py       proposes the commands that change topics and add shards
    placement.py            chooses the shard of a queue and the nodes of a shard
    topic_opening.py        opens a new topic's queues in their shards
    topic_deletion.py       removes a deleted topic from every shard
    other_leaders.py        the interface to the leaders on other nodes
"""
