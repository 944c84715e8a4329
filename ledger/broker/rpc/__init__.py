"""The gRPC layer of the broker has one module for each service of proto/, and modules that the services share.

Each method reads its request, calls a module of ledger/broker that decides, and fills in its response. In
ledger/broker, only the package rpc uses protobuf and gRPC.

    broker.py                      Broker: produce, fetch, offsets, keys, topics, routes, status
    operations.py                  Operations: members, leadership, log start, holds, shards
    consumer_groups.py             ConsumerGroups: join, heartbeat, claim, acknowledge, move
    consumer_group_operations.py   ConsumerGroupOperations: list, describe, reset, forget
    transactions.py                Transactions: prepare, end, list, checks, and calls between leaders of shards
    security.py                    Security: the proof of callers, users, rules and delegated tokens
    inspection.py                  Inspection: what people who look at a cluster ask of each single node
    rights.py                      the right that each method needs
    topic_rights.py                the rights on topics, for methods that name many topics in one call
    refusals.py                    errors become the error field of a response
    produce_stream.py              the stream of one producer, with responses in order
    share_stream.py                the stream of one member of a shared group
    two_way_stream.py              the two directions of a stream until one ends, and the limit of its answers
    fetch_wire.py                  fetch responses as bytes, with one copy of the messages
    routes_wire.py                 routes and status in protobuf
    placement_wire.py              the placement of replicas in protobuf
    waiting_wire.py                lists of waiting messages in protobuf
    slow_wire.py                   slow requests in protobuf
    trace_wire.py                  serves TraceMessage: what the caller may see, in protobuf
    throttling.py                  the client of a request, and its quotas
"""
