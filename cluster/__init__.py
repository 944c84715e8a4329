"""This package contains processes and tools: nodes, local clusters, the command line, load generators and
measurements.

    node/      one node process: settings, replicas of shards, formation, repair, metrics, HTTP
    local/     clusters on this machine, as processes or as containers
    cli/       the command `ledgermq`, a folder for each noun
    load/      producers of load, and the record of what was acknowledged
    bench/     measurements of a running cluster (`ledgermq bench`)
    demo/      the demonstration that `make demo` runs

allocator.py, grpc_engine.py and process_use.py change or measure operating-system properties of a process; address.py
checks addresses.
"""
