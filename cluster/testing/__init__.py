"""Real clusters for the tests of users' programs; `ledgermq.testing` has the public names.

    cluster.py         `Cluster`: starts and stops the nodes, and disturbs them
    async_cluster.py   `AsyncCluster`: the same for asyncio
    processes.py       the processes of nodes and links, as the test's process sees them
    forking.py         the process that imports a node's modules once, and forks for each node
    links.py           the process that carries the connections between nodes, and can cut them
    network.py         the network of a cluster, as the test's process sees it
    node_files.py      the files of one node
    fixtures.py        makes pytest fixtures; the plugin is the package `pytest_ledgermq`
    container.py       a node in a container, for the library testcontainers
    ports.py           ports that belong to a cluster while its nodes are down

Each node is a process of its own and runs the same code as `ledgermq server run`, so a kill is a real SIGKILL and a
pause is a real SIGSTOP. Nothing outlives the test's process, also if the test's process is killed.
"""
