"""The clients of a cluster: producer, consumers and admin client. The clients import neither raft/ nor store/.

In reading order:

    records.py   what clients return to users
    producer/    the producer: from a message to its queue, its batch and its result
    consumer/    the consumer without a consumer group
    group/       consumers of a consumer group, and the push consumer
    admin/       the admin client, by resource
    connection/  connections, routes, and calls to a shard's leader; every client uses it
    sync/        the synchronous clients
"""
