"""Carries Raft's messages over gRPC.

This package contains, in reading order:

    streams.py           a stream to one peer that is opened again whenever it breaks
    dialing.py           the channels to other nodes
    peer_calls.py        single calls of other nodes, beside the streams
    node_proof.py        the proof of caller and receiver that they are nodes of one cluster
    cluster_secret.py    the proof without certificates
    secret_file.py       who can read a file with a secret
    watched_file.py      a file of secrets that is read again when it changes
    proof_slots.py       the bound on proofs in progress
    admission.py         the check that a proven caller is still a member
    rare_log.py          at most one line a minute about what callers can cause without end
    refused_messages.py  counts and logs the messages that the core refuses
    wire.py              the core's messages as protobuf, and back
    bulk.py              byte ranges of the log inside a message, without an extra copy
    control_streams.py   votes and heartbeats of all shards between two nodes, on one stream
    grpc_transport.py    the transport of one shard, and the gRPC service of one node
"""
