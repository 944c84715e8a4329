"""The modules with which every client reaches the cluster: connections to nodes, routes, and calls to leaders.

This package contains, in reading order:

    cluster_client.py   calls the leader of a shard, and repeats the call until a leader answers
    answer_watch.py     notices that another node leads while a request to the former leader waits
    routes.py           keeps the route table up to date
    refresh_pace.py     calculates how often a client asks for routes while calls fail
    route_table.py      the route table: the leaders, nodes and topics that nodes reported
    channels.py         opens gRPC channels to nodes, and converts errors of gRPC
    renewed_channel.py  a gRPC channel that follows a change of the authorities
    cluster_link.py     the channels and routes that clients of one event loop share
    security.py         the security settings of a client: TLS, and who it is
    session.py          proves on a connection who the client is
    stream_end.py       why a stream has ended
    forwarding.py       names the user for whom a node calls, beside the proof of the node
    backoff.py          calculates the wait before a failed request is tried again
    lifetime.py         base classes of the clients: names of arguments, and starting and stopping in `with` blocks
    fetch_shares.py     limits the size of fetches when many consumers of one process fetch
    own_process.py      refuses a client in a forked process, or in another event loop than its own
    environment.py      the functions with which a client opens connections, reads clocks and makes producer ids
"""
