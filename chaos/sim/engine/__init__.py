"""The simulated environment of clusters: time, network, disks, RPCs and faults.

Read the modules of this package in this order:

    loop.py             an asyncio loop with virtual time; node_life.py is the loop of one simulated process
    outside_world.py    keeps clocks, randomness and threads of the real world out of a run
    network.py          datagrams and connections between endpoints; links.py is one direction between two endpoints
    rpc.py              RPCs of clients to simulated brokers; rpc_server.py is the server side
    sync_program.py     runs a program that is not asynchronous, in a thread that takes turns with the simulation
    disk.py             a simulated disk with page cache and platter; disk_content.py is its files and directories
    faults.py           defines all fault kinds; schedule.py draws when they occur, targets.py chooses the node they hit
    leaping_clock.py    the only clock of a run that leaps
    network_faults.py   carries out faults between nodes; ambush.py triggers faults at critical moments
"""
