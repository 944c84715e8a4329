"""This package starts, watches, kills and removes the nodes of a local cluster on this machine, as processes or as
containers.

    launcher.py            the interface of a local cluster, and the steps that all back ends share: read this first
    plan.py                the settings that a cluster of processes was created with (cluster.json), and DevError
    ports.py               the ports of a local cluster
    requirements.py        what a new cluster needs: packages and room on the disk
    file_lock.py           a lock between processes
    state.py               the state that a node reports, and whether all nodes agree
    processes.py           back end: node processes under one directory (`ledgermq dev`, the demo, the benchmarks)
    node_process.py        one node process; spawning.py starts and ends several
    toml_text.py           a value as TOML, for settings files and profiles
    credentials.py         the secrets of a cluster of processes: cluster secret, certificates, first password
    containers.py          back end: Docker containers (`ledgermq dev --docker`, `ledgermq demo --docker`)
    container_security.py  the certificates and passwords of a secured cluster of containers
    engine.py              the connection to the Docker engine

Chaos runs start their nodes with chaos/live/hosts and not with this package, because faults need network namespaces
and disk images.
"""
