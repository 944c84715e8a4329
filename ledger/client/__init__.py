"""The clients of a cluster: producer, consumers and admin client. The modules of the clients import no module of raft/
or store/.

This package contains, in reading order:

    records.py            the values that clients return to users
    placement_records.py  the values about the placement of replicas
    checked_numbers.py    checks numbers that programs give: settings, and arguments of calls
    checked_arguments.py  checks what else programs give: functions, names, lists, and queues of topics
    producer/             the producer: chooses the queue of a message, and collects and sends batches
    transactions/         transactions of producers
    background.py         tasks in the background, and one task for each shard
    consumer/             the consumer without a consumer group
    group/                the consumers of a consumer group, and the push consumer
    shared/               the consumers of shared groups, which lease messages
    requests/             requesters and responders: request and reply over ordinary topics
    admin/                the admin client
    connection/           connections, routes, and calls to the leader of a shard, for every client
    tracing.py            the setting `tracing` of producers and consumers
    spans.py              the trace spans of clients, after OpenTelemetry's conventions
    traced_listener.py    makes a trace span around each call of a listener
    signals.py            ends the iteration of consumers when the process receives a signal
    sync/                 the synchronous clients
"""
