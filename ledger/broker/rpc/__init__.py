"""The gRPC rim of a broker: a module for each service of proto/, and what these share.

Each method reads its request, calls what decides (the modules of ledger/broker), and fills in its response.

broker.py                    Broker: produce, fetch, offsets, keys, topics, routes, status
operations.py                Operations: members, leadership, the start of the log, shards
consumer_groups.py           ConsumerGroups: join, attend, claim, acknowledge
consumer_group_operations.py ConsumerGroupOperations: list, describe, reset, forget
refusals.py                  errors become the error field of a response
produce_stream.py            one producer's stream; responses in order
fetch_wire.py                a fetch response, written by hand
throttling.py                quotas where requests come in
"""
