"""The clients of a cluster: producer, consumers and admin client. The modules of the clients import no module of raft/
or store/.

This package contains, in reading order:

    records.py   the values that clients return to users
    producer/    the producer: chooses the queue of a message, and collects and sends batches
    consumer/    the consumer without a consumer group
    group/       the consumers of a consumer group, and the push consumer
    admin/       the admin client
    connection/  connections, routes, and calls to the leader of a shard, for every client
    signals.py   ends the iteration of consumers when the process receives a signal
    sync/        the synchronous clients
"""
