"""The gRPC layer of the broker has one module for each service of proto/, and modules that the services share.

Each method reads its request, calls a module of ledger/broker that decides, and fills in its response. In
ledger/broker, only the package rpc uses protobuf and gRPC.

    broker.py                      Broker: produce, fetch, offsets, keys, topics, routes, status
    operations.py                  Operations: members, leadership, log start, holds, shards
    consumer_groups.py             ConsumerGroups: join, heartbeat, claim, acknowledge, move
    consumer_group_operations.py   ConsumerGroupOperations: list, describe, reset, forget
    refusals.py                    errors become the error field of a response
    produce_stream.py              the stream of one producer, with responses in order
    two_way_stream.py              the two directions of a stream, until one of them ends
    fetch_wire.py                  fetch responses as bytes, with one copy of the messages
    routes_wire.py                 routes and status in protobuf
    throttling.py                  the client of a request, and its quotas
"""
