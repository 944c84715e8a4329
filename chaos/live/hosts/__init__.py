"""The environments in which the nodes of a chaos run are started: processes in network namespaces, or containers. Both
kinds implement the interface `NodeEnvironment`.

In reading order:

    environment.py       the interface `NodeEnvironment`
    local.py             nodes as processes of this machine, each with a network namespace
    process.py           one node as a child process
    namespaces.py        the network of all nodes
    namespace.py         runs programs in the network of one node
    containers.py        nodes as containers of the deployed image
    container.py         one node as a container
    container_engine.py  the network and the containers of a run, and the cleanup after other runs
    nodes_of_files.py    reads and writes the files of nodes, for both kinds
    node_security.py     TLS and authentication of the nodes and clients of a run
    disk_image.py        the disk of one node, which a run can fill and cut the power of
    link_rules.py        cuts links and drops packets, by iptables
    link_shaper.py       delays, reorders, duplicates or slows down packets
    clock.py             sets the wall clock of one node wrong
    injection.py         makes system calls of a node fail or take long, by strace
    shell.py             runs programs of the system to their end
"""
