"""The consumers of a consumer group: members, assigned queues and acknowledgements.

In reading order:

    group_consumer.py    AsyncGroupConsumer, the class that users call
    push_consumer.py     AsyncPushConsumer, which calls a listener
    call_watch.py        finds listener calls that take too long
    group_membership.py  joins the group and receives the assignment
    all_queues.py        the assignment of a broadcast: all queues
    assigned_queues.py   claims, acknowledges and releases the assigned queues
    assigned_queue.py    one assigned queue: messages in hand and finished messages
    claiming.py          claims queues at the leaders of their shards
"""
