"""This package contains processes and tools: nodes, local clusters, test clusters, the command line, the console,
load generators and measurements.

    node/      one node process: settings, replicas of shards, formation, repair, metrics, HTTP
    local/     clusters on this machine, as processes or as containers
    testing/   test clusters, for the tests of users' programs (`ledgermq.testing`)
    cli/       the command `ledgermq`, a folder for each noun
    console/   web pages on the HTTP port of every node
    load/      producers of load, and the record of what was acknowledged
    bench/     measurements of a running cluster (`ledgermq bench`)
    demo/      the demonstration that `make demo` runs

Several of these packages use the following modules:

    health.py              judges the health of a cluster from what its nodes say
    leadership.py          sentences about how long a leader keeps leadership
    replica_moves.py       sentences about moves of replicas
    dead_letters.py        reads the dead letters of a consumer group, and sends them again
    message_json.py        writes messages as JSON lines
    authority.py           makes the authority of a cluster, and the certificates that it signs
    provision.py           makes all files of a new secured cluster
    address.py             checks and splits addresses
    allocator.py           settings of the C library's allocator for ledgermq's own programs
    grpc_engine.py         sets gRPC up for ledgermq's processes
    process_use.py         the processor time and the memory of a process
    process_variables.py   changes variables of the environment for a while
"""
