"""The consumers of a consumer group: their membership, their assigned queues and their acknowledgements.

This package contains, in reading order:

    group_consumer.py       `AsyncGroupConsumer`, the group consumer that programs use
    push_consumer.py        `AsyncPushConsumer`, which calls a listener with each message
    message_line.py         the messages of a push consumer that wait for its listener, or that it consumed
    call_watch.py           finds listener calls that take too long
    group_membership.py     joins the group, sends heartbeats and receives the assignment
    all_queues.py           the assignment of a broadcast consumer: all queues of its topics
    assigned_queues.py      claims, acknowledges and releases the assigned queues
    assigned_queue.py       records the messages in hand and the finished messages of one assigned queue
    rebalance_callbacks.py  tells the program which queues a member was assigned, released or lost
    group_batch.py          messages of one queue as columns
    claiming.py             claims queues at the leaders of their shards
"""
