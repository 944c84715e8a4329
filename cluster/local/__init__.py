"""A cluster on this machine: N nodes are started, watched, killed and removed, as processes or as containers.

    launcher.py      the interface of a local cluster, and what all back ends share: begin here
    plan.py          what a cluster of processes was made with (cluster.json), and the error of this package
    ports.py         which ports a local cluster gets
    state.py         what a node says of itself, and whether all nodes agree
    processes.py     back end: node processes under one directory (`ledgermq dev`, the demo, the benchmarks)
    node_process.py  one node process
    containers.py    back end: Docker containers (`ledgermq dev --docker`, `ledgermq demo --docker`)
    engine.py        the connection to the Docker engine

The nodes of chaos runs have their own hosts (chaos/hosts), because faults need network namespaces and disk images.
"""
